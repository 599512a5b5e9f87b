/* SPDX-License-Identifier: ISC */
/*
 * delta_rule.c - DeltaNet's convolution and delta rule, shared out over threads:
 * channels, and columns of the heads' states, of a session.
 */
#include <string.h>

#include "engine/cpu/deltanet.h"

void
qwen_find_gates(const struct qwen_hparams *h, const struct qwen_layer *l,
    const struct qwen_delta_row *row, size_t head, size_t *alpha, size_t *beta)
{
	size_t rep = h->n_head_v / h->n_head_k;

	*alpha = row->alpha + head;
	*beta = row->beta + head;
	if (l->delta.by_key) {	/* rep of beta, then of alpha */
		*beta = row->alpha + head / rep * 2 * rep + head % rep;
		*alpha = *beta + rep;
	}
}

/* Channels one thread takes at a time. */
#define CHANNELS 256

static const struct qwen_layer_state *
state_of(const struct qwen_deltanet_pass *p, const struct qwen_share *share)
{
	return &share->mem->layer[p->l->index];
}

/* Moves the last inputs before the convolution on by n tokens of the journal. */
static void
shift(const struct qwen_hparams *h, const struct qwen_memory *m, size_t layer,
    float *hist, size_t c0, size_t c1, size_t from, size_t n)
{
	size_t taps = h->conv_kernel, nc = qwen_delta_row_of(h).z, i, j;

	for (i = 0; i + 1 < taps; i++) {
		j = i + n;
		memcpy(hist + i * nc + c0, c0 + (j + 1 < taps ?
		    hist + j * nc : qwen_journal_row(m->journal, layer,
		    from + j + 1 - taps)), (c1 - c0) * sizeof *hist);
	}
}

/* Rows of drafts leave the last inputs as they were. */
static void
conv_drafts(const struct qwen_deltanet_pass *p,
    const struct qwen_share *share, float *x, float *hist, size_t c0, size_t c1)
{
	size_t i, taps = p->b->hp->conv_kernel, n = c1 - c0;
	float old[QWEN_TAPS_MAX][CHANNELS];

	for (i = 0; i + 1 < taps; i++)
		memcpy(old[i], hist + i * p->row.z + c0, n * sizeof *hist);
	p->b->vec->conv(x + share->n_sure * p->b->s->mix.in_width,
	    p->b->s->mix.in_width, share->n - share->n_sure, p->l->delta.conv,
	    hist, taps, p->row.z, c0, c1);
	for (i = 0; i + 1 < taps; i++)
		memcpy(hist + i * p->row.z + c0, old[i], n * sizeof *hist);
}

/* Item: channels of a share. */
static void
do_conv(void *arg, size_t item, int thread)
{
	const struct qwen_deltanet_pass *p = arg;
	const struct qwen_share *share = &p->b->share[item / p->per_share];
	const struct qwen_hparams *h = p->b->hp;
	size_t width = p->b->s->mix.in_width, layer = p->l->index, i;
	struct qwen_profile *profile = &p->b->cpu->profile;
	uint64_t begin = qwen_profile_begin(profile);
	size_t c0 = item % p->per_share * CHANNELS;
	size_t c1 = c0 + CHANNELS < p->row.z ? c0 + CHANNELS : p->row.z;
	size_t owed = share->owed;
	float *hist = state_of(p, share)->conv;
	float *x = p->b->s->mix.in + share->first * width;

	if (owed > 0)
		shift(h, share->mem, layer, hist, c0, c1, share->pos - owed,
		    owed);
	for (i = share->n_sure; i < share->n; i++)
		memcpy(qwen_journal_row(share->mem->journal, layer,
		    share->pos + i) + c0, x + i * width + c0,
		    (c1 - c0) * sizeof *x);
	p->b->vec->conv(x, width, share->n_sure, p->l->delta.conv, hist,
	    h->conv_kernel, p->row.z, c0, c1);
	if (share->n > share->n_sure)
		conv_drafts(p, share, x, hist, c0, c1);
	/* rows in place; taps, and the history before and after */
	qwen_profile_end(profile, thread, QWEN_STAGE_CONV, begin,
	    (c1 - c0) * (2 * share->n + 3 * h->conv_kernel - 2) * sizeof *x,
	    (c1 - c0) * share->n * h->conv_kernel);
}

/* Columns of a head's state one thread takes at a time. */
#define COLUMNS 64

/* Returns the columns of an item's state; NULL after the last item. */
static float *
columns(const struct qwen_deltanet_pass *p, size_t item)
{
	const struct qwen_hparams *h = p->b->hp;
	size_t per_head = (h->dv + COLUMNS - 1) / COLUMNS, i;

	if (item >= p->b->pass->n_share * p->per_share)
		return NULL;
	i = item % p->per_share;
	return state_of(p, &p->b->share[item / p->per_share])->s +
	    i / per_head * h->dk * h->dv + i % per_head * COLUMNS;
}

/* Returns the key head of a value head. */
static size_t
key_head(const struct qwen_hparams *h, size_t head)
{
	return h->grouped ? head / (h->n_head_v / h->n_head_k) :
	    head % h->n_head_k;
}

/*
 * Describes n tokens of the journal from a position on to the rule, for columns
 * from c0 on of a head: one piece, or two where the rows begin again.  Returns the
 * last piece; NULL if n is 0.
 */
static struct qwen_delta *
journal_rows(const struct qwen_hparams *h, const struct qwen_memory *mem,
    const struct qwen_layer *l, size_t from, size_t n, size_t head, size_t c0,
    struct qwen_delta piece[2])
{
	const struct qwen_journal *all = mem->journal;
	const struct qwen_journal_row j = qwen_journal_row_of(h);
	const struct qwen_delta_row row = qwen_delta_row_of(h);
	size_t k = j.k + key_head(h, head) * h->dk, alpha, beta, m, i;
	struct qwen_delta *last = NULL;

	qwen_find_gates(h, l, &row, head, &alpha, &beta);
	for (i = 0; n > 0; i++, from += m, n -= m) {
		const float *p = qwen_journal_row(all, l->index, from);
		size_t stride = all->by_row;

		m = QWEN_GUESS_MAX - from % QWEN_GUESS_MAX;
		m = m < n ? m : n;
		piece[i] = (struct qwen_delta){ .dk = h->dk, .dv = h->dv,
		    .n_tok = m, .q = p + k, .k = p + k, .qk_stride = stride,
		    .v = p + j.v + head * h->dv + c0, .v_stride = stride,
		    .g = p + j.gates + alpha - row.alpha,
		    .b = p + j.gates + beta - row.alpha, .gb_stride = stride,
		    .before = last };
		last = &piece[i];
	}
	return last;
}

/* Describes the rows of a share to the rule, for columns of a head. */
static struct qwen_delta
batch_rows(const struct qwen_deltanet_pass *p, const struct qwen_share *share, size_t head,
    size_t c0)
{
	const struct qwen_hparams *h = p->b->hp;
	const struct qwen_scratch *s = p->b->s;
	const float *in = s->mix.in + share->first * s->mix.in_width;
	size_t head_k = key_head(h, head), alpha, beta;

	qwen_find_gates(h, p->l, &p->row, head, &alpha, &beta);
	return (struct qwen_delta){
		.s = state_of(p, share)->s + head * h->dk * h->dv + c0,
		.dk = h->dk, .dv = h->dv,
		.c1 = h->dv - c0 < COLUMNS ? h->dv - c0 : COLUMNS,
		.n_tok = share->n_sure, .n_ahead = share->n - share->n_sure,
		.q = in + head_k * h->dk,
		.k = in + (h->n_head_k + head_k) * h->dk,
		.qk_stride = s->mix.in_width,
		.v = in + p->row.v + head * h->dv + c0,
		.v_stride = s->mix.in_width,
		.g = in + alpha, .b = in + beta, .gb_stride = s->mix.in_width,
		.o = s->mix.o + share->first * s->mix.o_width + head * h->dv + c0,
		.o_stride = s->mix.o_width,
	};
}

/* Item: columns of a head of a share. */
static void
do_delta(void *arg, size_t item, int thread)
{
	const struct qwen_deltanet_pass *p = arg;
	const struct qwen_share *share = &p->b->share[item / p->per_share];
	const struct qwen_hparams *h = p->b->hp;
	size_t per_head = (h->dv + COLUMNS - 1) / COLUMNS;
	size_t head = item % p->per_share / per_head;
	size_t c0 = item % per_head * COLUMNS, owed, i;
	struct qwen_delta before[2], d = batch_rows(p, share, head, c0);
	struct qwen_profile *profile = &p->b->cpu->profile;
	uint64_t begin = qwen_profile_begin(profile);

	d.next = columns(p, item + 1);
	owed = share->owed;
	d.before = journal_rows(h, share->mem, p->l, share->pos - owed, owed,
	    head, c0, before);
	/* what they leave there is written over */
	for (i = 0; d.before != NULL && i < 2; i++)
		before[i].o = d.o;
	p->b->cpu->kernels.delta->run.delta(&d);
	/* S is read and written; four operations on each element a token */
	qwen_profile_end(profile, thread, QWEN_STAGE_DELTA, begin,
	    2 * h->dk * d.c1 * sizeof(float),
	    4 * h->dk * d.c1 * (owed + share->n));
}

void
qwen_delta_note(const struct qwen_deltanet_pass *p, size_t t)
{
	const struct qwen_hparams *h = p->b->hp;
	const struct qwen_share *share = qwen_share_of(p->b, t);
	const struct qwen_journal_row j = qwen_journal_row_of(h);
	const float *in = p->b->s->mix.in + t * p->b->s->mix.in_width;
	size_t i = t - share->first;
	float *to;

	if (i < share->n_sure)
		return;
	to = qwen_journal_row(share->mem->journal, p->l->index, share->pos + i);
	memcpy(to + j.k, in + h->n_head_k * h->dk,
	    (j.gates - j.k) * sizeof *to);
	memcpy(to + j.gates, in + p->row.alpha,
	    2 * h->n_head_v * sizeof *to);
}

void
qwen_delta_conv(struct qwen_deltanet_pass *p)
{
	p->per_share = (p->row.z + CHANNELS - 1) / CHANNELS;
	qwen_pool_run(p->b->cpu->pool, do_conv, p,
	    p->b->pass->n_share * p->per_share);
}

void
qwen_delta_rule(struct qwen_deltanet_pass *p)
{
	const struct qwen_hparams *h = p->b->hp;

	p->per_share = h->n_head_v * ((h->dv + COLUMNS - 1) / COLUMNS);
	qwen_pool_run(p->b->cpu->pool, do_delta, p,
	    p->b->pass->n_share * p->per_share);
}

/* ------------------------------------------- tokens that were computed once */

struct replay {
	const struct qwen_cpu		*c;
	const struct qwen_memory	*mem;
	size_t				 from, n;	/* of the journal */
	size_t				 per_layer;	/* items */
};

/* Item: a layer's convolution, or columns of a head. */
static void
do_replay(void *arg, size_t item, int thread)
{
	const struct replay *r = arg;
	const struct qwen_net *net = r->c->r.net;
	const struct qwen_hparams *h = &net->hp;
	size_t per_head = (h->dv + COLUMNS - 1) / COLUMNS;
	const struct qwen_layer *l = &net->layer[item / r->per_layer];
	const struct qwen_layer_state *state = &r->mem->layer[l->index];
	size_t home = r->c->r.home[QWEN_MIXER(l->index)];
	size_t i = item % r->per_layer, head = i / per_head;
	size_t c0 = i % per_head * COLUMNS;
	struct qwen_delta piece[2], *d;
	float o[COLUMNS];

	(void)thread;
	if (state->s == NULL ||
	    (home > 0 && (r->mem->there >> (home - 1) & 1) != 0))
		return;
	if (i == r->per_layer - 1) {
		shift(h, r->mem, l->index, state->conv, 0,
		    qwen_delta_row_of(h).z, r->from, r->n);
		return;
	}
	d = journal_rows(h, r->mem, l, r->from, r->n, head, c0, piece);
	piece[0].o = piece[1].o = o;
	d->s = state->s + head * h->dk * h->dv + c0;
	d->c1 = h->dv - c0 < COLUMNS ? h->dv - c0 : COLUMNS;
	r->c->kernels.delta->run.delta(d);
}

void
qwen_deltanet_replay(struct qwen_resident *res, struct qwen_memory *m,
    size_t from, size_t n)
{
	const struct qwen_hparams *h = &res->net->hp;
	struct replay r = { .c = (const struct qwen_cpu *)(const void *)res,
	    .mem = m, .from = from, .n = n, .per_layer = h->n_head_v *
	    ((h->dv + COLUMNS - 1) / COLUMNS) + 1 };

	if (n > 0)
		qwen_pool_run(r.c->pool, do_replay, &r,
		    h->n_layer * r.per_layer);
}
