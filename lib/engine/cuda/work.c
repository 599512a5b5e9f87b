/* SPDX-License-Identifier: ISC */
/* work.c - the memory of a pass on the card, and what is sent there for a run. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/work.h"
#include "engine/net/lora.h"
#include "engine/quant/math.h"

/* ------------------------------------------------------------- sizes of arrays */

static size_t
max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Numbers of a row of the MTP block's inputs; 0 without the block. */
static size_t
join_width(const struct qwen_net *net)
{
	return net->mtp.on ? 2 * net->hp.n_embd : 0;
}

/* Numbers of a row of a mixer's projections, and of its result. */
static size_t
in_width(const struct qwen_net *net)
{
	const struct qwen_hparams *h = &net->hp;
	size_t n = max_size((2 * h->n_head + 2 * h->n_head_kv) *
	    h->n_embd_head, qwen_delta_row_of(h).beta + h->n_head_v);

	return max_size(n, join_width(net));
}

static size_t
out_width(const struct qwen_hparams *h)
{
	return max_size(h->n_head * h->n_embd_head, h->n_head_v * h->dv);
}

/* Sets the bytes of a row of each array. */
static void
set_widths(const struct qwen_net *net, size_t *width)
{
	const struct qwen_hparams *h = &net->hp;
	size_t used = h->n_expert_used, i;
	size_t ff = max_size(h->n_ff, max_size(h->n_ff_shexp,
	    used * h->n_ff_exp));
	size_t most = max_size(max_size(h->n_embd, out_width(h)),
	    max_size(ff, join_width(net)));
	const size_t n[QWEN_CUDA_ARRAYS] = {
		[QWEN_CUDA_X] = h->n_embd, [QWEN_CUDA_XN] = h->n_embd,
		[QWEN_CUDA_OUT] = h->n_embd,
		[QWEN_CUDA_IN] = in_width(net), [QWEN_CUDA_O] = out_width(h),
		[QWEN_CUDA_GATE] = ff + h->n_ff_shexp,
		[QWEN_CUDA_UP] = ff + h->n_ff_shexp,
		[QWEN_CUDA_Y] = (used + 1) * h->n_embd,
		[QWEN_CUDA_ROUTER] = h->n_expert + 1,
		[QWEN_CUDA_SHARE] = used + 1, [QWEN_CUDA_CHOSEN] = used + 1,
		[QWEN_CUDA_TURN] = h->n_rot,
		[QWEN_CUDA_DEEP] = h->n_deepstack * h->n_embd,
		[QWEN_CUDA_LOW] = (used + 1) * qwen_loras_width(net),
	};

	for (i = 0; i < QWEN_CUDA_ARRAYS; i++)
		width[i] = n[i] * sizeof(float);
	/* a row of each expert has its own groups */
	width[QWEN_CUDA_GROUPS] = max_size(qwen_cuda_groups_bytes(net, most),
	    (used + 1) * qwen_cuda_groups_bytes(net, h->n_ff_exp));
	width[QWEN_CUDA_GROUPS_X] = qwen_cuda_groups_bytes(net, h->n_embd);
}

static uint64_t
scratch_of(const struct qwen_net *net, size_t n, size_t end)
{
	uint64_t a = qwen_cuda_attention_scratch(net, n, end);
	uint64_t b = net->hp.n_head_v > 0 ? qwen_cuda_deltanet_scratch(net, n) :
	    0;
	uint64_t c = net->hp.n_expert > 0 ? qwen_cuda_moe_scratch(net, n) : 0;

	a = a > b ? a : b;
	return a > c ? a : c;
}

/* ------------------------------------------------------------- sent for a run */

/* Bytes of what a run needs, in this order. */
struct sent {
	size_t	row, last;	/* rows; for the last mixer, which are wanted */
	size_t	share, table, all;
};

static size_t
align(size_t n)
{
	return (n + 255) / 256 * 256;
}

static struct sent
sent_of(size_t n, size_t n_share, size_t n_block)
{
	struct sent s = { 0 };

	s.last = align(n * sizeof(struct dev_row));
	s.share = 2 * s.last;
	s.table = s.share + align(n_share * sizeof(struct dev_share));
	s.all = s.table + align(n_block * sizeof(u64));
	return s;
}

/* Blocks of n_share sessions of at most end tokens. */
static size_t
max_blocks(size_t n_share, size_t end)
{
	return n_share * (end / QWEN_KV_BLOCK + 2);
}

/* Rows of logits that are computed at once. */
static size_t
logit_rows(size_t n)
{
	return n < QWEN_CUDA_HEAD_ROWS ? n : QWEN_CUDA_HEAD_ROWS;
}

/* Rows of logits that the host fetches at once. */
static size_t
pinned_rows(size_t n)
{
	return n < 4 ? n : 4;
}

static size_t
flag_bytes(size_t n_share)
{
	return align(n_share * sizeof(struct dev_flag));
}

uint64_t
qwen_cuda_work_bytes(const struct qwen_net *net, size_t n, size_t n_share,
    size_t end)
{
	size_t width[QWEN_CUDA_ARRAYS], i;
	uint64_t sum;

	set_widths(net, width);
	sum = sent_of(n, n_share, max_blocks(n_share, end)).all +
	    flag_bytes(n_share) + QWEN_CUDA_COUNTERS * sizeof(u32) +
	    align(logit_rows(n) * net->hp.n_vocab * sizeof(float)) +
	    align((size_t)scratch_of(net, n, end));
	for (i = 0; i < QWEN_CUDA_ARRAYS; i++)
		sum += align(n * width[i]);
	return sum;
}

/* Gives each array its place in the memory. */
static void
place_arrays(struct qwen_cuda_work *w, size_t n, size_t n_share, size_t end)
{
	cu_ptr p = w->memory;
	size_t i;

	w->sent = p;
	p += sent_of(n, n_share, max_blocks(n_share, end)).all;
	w->flag = p;
	p += flag_bytes(n_share);
	w->counter = p;
	p += QWEN_CUDA_COUNTERS * sizeof(u32);
	w->logits = p;
	p += align(logit_rows(n) * w->net->hp.n_vocab * sizeof(float));
	for (i = 0; i < QWEN_CUDA_ARRAYS; i++) {
		w->array[i] = p;
		p += align(n * w->width[i]);
	}
	w->scratch = p;
	w->scratch_bytes = (size_t)scratch_of(w->net, n, end);
}

/* Returns the bytes that the host sends of a row, as embed, join and so on do. */
static size_t
host_width(const struct qwen_cuda_work *w)
{
	size_t join = join_width(w->net) * sizeof(float) + 2 * sizeof(u32);

	return max_size(max_size(join, w->width[QWEN_CUDA_DEEP]),
	    max_size(w->width[QWEN_CUDA_X], w->width[QWEN_CUDA_TURN]));
}

/* Replaces the memory; -1 if there is not enough. */
static int
take_memory(struct qwen_cuda_work *w, size_t n, size_t n_share, size_t end)
{
	size_t bytes = (size_t)qwen_cuda_work_bytes(w->net, n, n_share, end);

	qwen_cuda_graphs_free(w);
	qwen_cuda_free(w->c->card, w->memory);
	qwen_cuda_pinned_free(w->c->card, w->pinned);
	free(w->host);
	w->cap = w->cap_share = w->end = 0;
	w->host_bytes = sent_of(n, n_share, max_blocks(n_share, end)).all;
	w->host = qwen_alloc(1, max_size(w->host_bytes, n * host_width(w)));
	w->memory = qwen_cuda_alloc(w->c->card, bytes);
	w->pinned = qwen_cuda_pinned(w->c->card, flag_bytes(n_share) +
	    pinned_rows(n) * w->net->hp.n_vocab * sizeof(float));
	if (w->host == NULL || w->pinned == NULL || w->memory == 0)
		return -1;
	place_arrays(w, n, n_share, end);
	qwen_cuda_zero(w->c->card, w->counter, QWEN_CUDA_COUNTERS *
	    sizeof(u32));
	w->cap = n;
	w->cap_share = n_share;
	w->end = end;
	return 0;
}

int
qwen_cuda_fit(struct qwen_work *work, size_t n, size_t n_share, size_t end,
    struct qwen_err *err)
{
	struct qwen_cuda_work *w = qwen_cuda_work_of(work);

	qwen_cuda_enter(w->c->card);
	if (!qwen_cuda_has_any(w->w.r))		/* it computes nothing */
		return 0;
	if (n <= w->cap && n_share <= w->cap_share && end <= w->end)
		return qwen_cuda_check(w->c->card, err);
	set_widths(w->net, w->width);
	/* room for twice the text, since it will grow; else for this text */
	if (take_memory(w, max_size(n, w->cap), max_size(n_share,
	    w->cap_share), end <= w->end ? w->end : max_size(end,
	    2 * w->end)) < 0 && take_memory(w, n, n_share, end) < 0)
		return qwen_cuda_check(w->c->card, err) < 0 ? -1 :
		    qwen_fail(err, QWEN_ENOMEM, "%s has no memory left for a "
		    "batch of %zu tokens", w->c->card->name, n);
	return 0;
}

int
qwen_cuda_work_new(struct qwen_work **out, struct qwen_resident *r,
    struct qwen_err *err)
{
	struct qwen_cuda_work *w = qwen_alloc(1, sizeof *w);

	*out = NULL;
	if (w == NULL)
		return qwen_oom(err);
	w->w.r = r;
	w->c = (struct qwen_cuda *)(void *)r;
	w->net = r->net;
	*out = &w->w;
	return 0;
}

void
qwen_cuda_work_free(struct qwen_work *work)
{
	struct qwen_cuda_work *w = qwen_cuda_work_of(work);

	if (w == NULL)
		return;
	qwen_cuda_enter(w->c->card);
	qwen_cuda_graphs_free(w);
	qwen_cuda_free(w->c->card, w->memory);
	qwen_cuda_pinned_free(w->c->card, w->pinned);
	free(w->host);
	free(w);
}

/* ------------------------------------------------------------------ a run */

static void
fill_rows(struct dev_row *row, const struct qwen_pass *p, int last)
{
	const struct qwen_share *s;
	u32 n_deep = 0;
	size_t t;

	for (t = 0; t < p->n; t++) {
		s = &p->share[p->owner[t]];
		row[t] = (struct dev_row){ .share = p->owner[t],
		    .slot = (u32)p->row[t].slot,
		    .deep = p->row[t].deep != NULL ? ++n_deep : 0,
		    .wanted = !last || t - s->first >= s->want };
	}
}

/*
 * Returns how many KV blocks the rows of a share attend to.  The session may
 * have more, which an earlier call that failed has left.
 */
static size_t
blocks_of(const struct qwen_share *s)
{
	size_t n = (s->pos + s->n + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	size_t have = s->mem->n_slot - s->skip;

	return n < have ? n : have;
}

/* Fills in the shares, and their blocks from `table', in the card's memory, on. */
static void
fill_shares(struct qwen_cuda_work *w, struct dev_share *out, u64 *block,
    u64 table)
{
	const struct qwen_pass *p = w->p;
	const struct qwen_resident *r = w->w.r;
	size_t i, b, n;

	for (i = 0; i < p->n_share; i++) {
		const struct qwen_share *s = &p->share[i];

		out[i] = (struct dev_share){ .table = table,
		    .state = qwen_cuda_state_at(r, s->mem),
		    .first = (u32)s->first, .n = (u32)s->n,
		    .n_sure = (u32)s->n_sure, .want = (u32)s->want,
		    .pos = (u32)s->pos, .owed = (u32)s->owed };
		n = blocks_of(s);
		for (b = 0; b < n; b++) {
			const void *own = s->mem->slot[s->skip + b]->own[
			    r->index - 1];

			*block++ = own != NULL ? qwen_cuda_slot_at(own) : 0;
		}
		table += n * sizeof *block;
	}
}

void
qwen_cuda_send(struct qwen_cuda_work *w)
{
	const struct qwen_pass *p = w->p;
	size_t i, n_block = 0;
	struct sent s;

	for (i = 0; i < p->n_share; i++)
		n_block += blocks_of(&p->share[i]);
	s = sent_of(p->n, p->n_share, n_block);
	assert(s.all <= w->host_bytes);
	fill_rows((void *)w->host, p, 0);
	fill_rows((void *)(w->host + s.last), p, 1);
	fill_shares(w, (void *)(w->host + s.share),
	    (void *)(w->host + s.table), w->sent + s.table);
	qwen_cuda_put(w->c->card, w->sent, w->host, s.all);
	w->pass = (struct dev_pass){ .row = QWEN_CUDA_P(w->sent),
	    .share = QWEN_CUDA_P(w->sent + s.share),
	    .flag = QWEN_CUDA_P(w->flag), .n = (u32)p->n };
	w->row_last = w->sent + s.last;
	w->is_sent = 1;
}

/* Computes the cos and sin of a row's pairs. */
static void
turn_row(void *arg, size_t t, int thread)
{
	const struct qwen_cuda_work *w = arg;
	const struct qwen_hparams *h = &w->net->hp;
	const uint32_t *pos = w->p->row[t].pos;
	float *to = (float *)(void *)w->host + t * h->n_rot;
	const size_t *section = h->rope_section;
	double sine, cosine;
	size_t i, at;

	(void)thread;
	for (i = 0; i < h->n_rot / 2; i++) {
		at = i % 3 != 0 && i < 3 * section[i % 3] ? i % 3 : 0;
		qwen_sincos((double)pos[at] * h->rope_freq[i], &sine, &cosine);
		to[2 * i] = (float)(cosine * h->rope_mscale);
		to[2 * i + 1] = (float)(sine * h->rope_mscale);
	}
}

void
qwen_cuda_send_turns(struct qwen_cuda_work *w)
{
	if (w->net->hp.n_rot == 0)
		return;
	qwen_pool_run(w->c->pool, turn_row, w, w->p->n);
	qwen_cuda_put(w->c->card, w->array[QWEN_CUDA_TURN], w->host,
	    w->p->n * w->width[QWEN_CUDA_TURN]);
}

void
qwen_cuda_send_deep(struct qwen_cuda_work *w, size_t layer)
{
	const struct qwen_pass *p = w->p;
	size_t t, n = 0, bytes = w->width[QWEN_CUDA_DEEP];

	for (t = 0; t < p->n && layer < w->net->hp.n_deepstack; t++) {
		if (p->row[t].deep != NULL)
			memcpy(w->host + n++ * bytes, p->row[t].deep, bytes);
	}
	if (n > 0)
		qwen_cuda_put(w->c->card, w->array[QWEN_CUDA_DEEP], w->host,
		    n * bytes);
	w->n_deep = n;
}

void
qwen_cuda_clear_flags(struct qwen_cuda_work *w)
{
	qwen_cuda_ones(w->c->card, w->flag, w->p->n_share *
	    sizeof(struct dev_flag));
}

/* Sets *x to v if v is lower. */
static void
lower(_Atomic size_t *x, size_t v)
{
	if (v < atomic_load(x))
		atomic_store(x, v);
}

/*
 * Tells the pass of the flags that have been fetched.  They are noted by share
 * and not by row, since a share may have no rows left.
 */
static void
note_flags(struct qwen_cuda_work *w)
{
	const struct qwen_pass *p = w->p;
	const struct dev_flag *f = w->pinned;
	size_t i;

	for (i = 0; i < p->n_share; i++, f++) {
		/* results of a card that has failed are not used */
		if (w->c->card->failed != NULL)
			lower(&p->share[i].bad, 0);
		else if (f->bad != ~0u)
			lower(&p->share[i].bad, f->bad);
		if (w->c->card->failed == NULL && f->good != ~0u)
			lower(&p->share[i].good, f->good);
	}
}

void
qwen_cuda_fetch_flags(struct qwen_cuda_work *w)
{
	qwen_cuda_get_begin(w->c->card, w->pinned, w->flag, w->p->n_share *
	    sizeof(struct dev_flag));
	qwen_cuda_sync(w->c->card);
	note_flags(w);
}

void
qwen_cuda_fetch_logits(struct qwen_cuda_work *w, size_t n, size_t width,
    float *const *y)
{
	size_t row = width * sizeof(float), i, k, m;
	char *logits = (char *)w->pinned + flag_bytes(w->cap_share);

	for (i = 0; i < n; i += m) {
		m = n - i < pinned_rows(n) ? n - i : pinned_rows(n);
		qwen_cuda_get_begin(w->c->card, logits, w->logits + i * row,
		    m * row);
		qwen_cuda_fetch_flags(w);
		for (k = 0; w->c->card->failed == NULL && k < m; k++)
			memcpy(y[i + k], logits + k * row, row);
	}
}
