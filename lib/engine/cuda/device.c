/* SPDX-License-Identifier: ISC */
/*
 * device.c - a card as a device: struct qwen_device.
 *
 *	x += mixer(norm(x)); x += ffn(norm(x))
 *
 * The norm after a block adds the block's result to x.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/load.h"
#include "engine/cuda/lora.h"
#include "engine/cuda/kernel/rows.h"
#include "engine/cuda/work.h"
#include "engine/engine.h"

static struct qwen_cuda *
cuda_of(const struct qwen_resident *r)
{
	return (struct qwen_cuda *)(uintptr_t)r;
}

static void
cuda_close(struct qwen_resident *r)
{
	struct qwen_cuda *c = cuda_of(r);

	if (c->card != NULL) {
		qwen_cuda_enter(c->card);
		qwen_cuda_slabs_free(c);
		qwen_cuda_unload(c);
	}
	qwen_cuda_card_close(c->card);
	free(c);
}

/* Memory stays free for a pass of PASS_ROWS and a text of PASS_TOKENS. */
enum { PASS_ROWS = 512, PASS_TOKENS = 8192 };

/* Returns the bytes that the card may use for weights. */
static uint64_t
weight_memory(const struct qwen_cuda *c, const struct qwen_wish *wish)
{
	uint64_t work = qwen_cuda_work_bytes(c->r.net, PASS_ROWS, 1,
	    PASS_TOKENS), limit = wish->bytes;

	if (c->card != NULL) {		/* else the wish is a plan */
		limit = qwen_cuda_memory_left(c->card);
		limit -= limit / 16;	/* for the driver */
	}
	if (wish->bytes > 0 && wish->bytes < limit)
		limit = wish->bytes;
	return work < limit ? limit - work : 0;
}

/* Returns the bytes that half a layer takes: weights, keys and values. */
static uint64_t
half_memory(const struct qwen_net *net, size_t half)
{
	struct qwen_kv_shape s = qwen_kv_shape_of(&net->hp);
	uint64_t bytes = qwen_cuda_half_bytes(net, half);

	return half % 2 != 0 || half == QWEN_HEAD(net->hp.n_layer) ||
	    qwen_net_layer(net, half / 2)->mixer != QWEN_ATTENTION ? bytes :
	    bytes +
	    PASS_TOKENS / QWEN_KV_BLOCK * qwen_kv_block_bytes(&s);
}

/* Leaves half a layer to the CPU unless *left bytes suffice for it. */
static void
choose_half(const struct qwen_cuda *c, unsigned char *home, size_t half,
    uint64_t *left)
{
	const struct qwen_net *net = c->r.net;
	uint64_t bytes;

	if (home[half] != c->r.index)
		return;
	bytes = qwen_cuda_can(net, half) ? half_memory(net, half) : UINT64_MAX;
	if (bytes > *left)
		home[half] = 0;
	else
		*left -= bytes;
}

/* The same with the MTP block, whose halves and head have one home. */
static void
choose_mtp(const struct qwen_cuda *c, unsigned char *home, uint64_t *left)
{
	const struct qwen_net *net = c->r.net;
	size_t n = net->hp.n_layer, half;
	uint64_t bytes = 0;

	if (home[QWEN_MIXER(n)] != c->r.index)
		return;
	for (half = QWEN_MIXER(n); half <= QWEN_FFN(n); half++)
		bytes = net->mtp.on && bytes < UINT64_MAX &&
		    qwen_cuda_can(net, half) ? bytes + half_memory(net, half) :
		    UINT64_MAX;
	if (!qwen_cuda_shares_head(&c->r) && bytes < UINT64_MAX)
		bytes += qwen_cuda_weight_bytes(&net->mtp.head, 1);
	if (bytes > *left)
		home[QWEN_MIXER(n)] = home[QWEN_FFN(n)] = 0;
	else
		*left -= bytes;
}

/*
 * The CPU keeps what the card has no kernels or no memory for.  The card takes
 * the head and mixers first, since each token reads all of their bytes, then
 * the MTP block, and feed-forward parts.  It begins with the last layer, so that
 * runs are few.
 */
static void
choose(const struct qwen_cuda *c, unsigned char *home,
    const struct qwen_wish *wish)
{
	size_t n = c->r.net->hp.n_layer, i;
	uint64_t left = weight_memory(c, wish);

	choose_half(c, home, QWEN_HEAD(n), &left);
	for (i = n; i-- > 0;)
		choose_half(c, home, QWEN_MIXER(i), &left);
	choose_mtp(c, home, &left);
	for (i = n; i-- > 0;)
		choose_half(c, home, QWEN_FFN(i), &left);
}

static int
cuda_open(struct qwen_resident **out, struct qwen_engine *e,
    const struct qwen_net *net, unsigned char *home, size_t index,
    const struct qwen_wish *wish, struct qwen_err *err)
{
	struct qwen_cuda *c = qwen_alloc(1, sizeof *c);

	*out = NULL;
	if (c == NULL)
		return qwen_oom(err);
	c->r = (struct qwen_resident){ .dev = &qwen_cuda_device, .net = net,
	    .home = home, .index = index };
	c->pool = e->pool;
	if (qwen_cuda_card_open(&c->card, wish->number, err) == 0) {
		choose(c, home, wish);
		if (qwen_cuda_load(c, err) == 0 &&
		    (qwen_cuda_sync(c->card), qwen_cuda_check(c->card,
		    err)) == 0) {
			*out = &c->r;
			return 0;
		}
	}
	cuda_close(&c->r);
	return -1;
}

static int
cuda_plan(const struct qwen_net *net, unsigned char *home, size_t index,
    const struct qwen_wish *wish, struct qwen_err *err)
{
	struct qwen_cuda c = { .r = { .net = net, .home = home,
	    .index = index } };

	if (wish->bytes == 0 && qwen_cuda_card_open(&c.card, wish->number,
	    err) < 0)
		return -1;
	choose(&c, home, wish);
	qwen_cuda_card_close(c.card);
	return 0;
}

static size_t
cuda_describe(const struct qwen_resident *r, char *buf, size_t size)
{
	const struct qwen_cuda_card *c = cuda_of(r)->card;

	return (size_t)snprintf(buf, size, "cuda:%d %s", c->device, c->name);
}

static uint64_t
cuda_bytes(const struct qwen_resident *r, size_t n, size_t n_share, size_t end)
{
	return qwen_cuda_has_any(r) ? qwen_cuda_work_bytes(r->net, n, n_share,
	    end) : 0;
}

static int
cuda_profile(struct qwen_resident *r, int on)
{
	qwen_cuda_enter(cuda_of(r)->card);
	return qwen_cuda_time(cuda_of(r)->card, on);
}

/* There are times by kernel, and none by purpose. */
static size_t
cuda_stats(const struct qwen_resident *r, int by_purpose,
    struct qwen_kernel_stat *out, size_t max)
{
	qwen_cuda_enter(cuda_of(r)->card);
	return by_purpose ? 0 : qwen_cuda_times(cuda_of(r)->card, out, max);
}

static int
cuda_check(const struct qwen_resident *r, struct qwen_err *err)
{
	return qwen_cuda_check(cuda_of(r)->card, err);
}

/* ------------------------------------------------------------------- a pass */

static struct qwen_cuda_work *
enter(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_cuda_work *w = qwen_cuda_work_of(work);

	assert(p->n <= w->cap && p->n_share <= w->cap_share);
	w->p = p;
	qwen_cuda_enter(w->c->card);
	return w;
}

static void
embed_row(void *arg, size_t t, int thread)
{
	const struct qwen_cuda_work *w = arg;
	const struct qwen_input *in = &w->p->row[t];
	size_t n = w->net->hp.n_embd;
	float *x = (float *)(void *)w->host + t * n;

	(void)thread;
	if (in->vec != NULL)
		memcpy(x, in->vec, n * sizeof *x);
	else
		qwen_cuda_embedding(&w->net->token_embd, (size_t)in->id, x);
}

static void
put_rows(struct qwen_cuda_work *w, const float *x)
{
	qwen_cuda_put(w->c->card, w->array[QWEN_CUDA_X], x,
	    w->p->n * w->width[QWEN_CUDA_X]);
	qwen_cuda_clear_flags(w);
	w->pending = w->is_sent = 0;
}

static void
cuda_embed(struct qwen_work *work, const struct qwen_pass *p)
{
	struct qwen_cuda_work *w = enter(work, p);

	qwen_pool_run(w->c->pool, embed_row, w, p->n);
	put_rows(w, (const float *)(void *)w->host);
}

static void
cuda_put(struct qwen_work *work, const struct qwen_pass *p, const float *x)
{
	put_rows(enter(work, p), x);
}

/* Adds the last block's result to the residual stream, unless it is there. */
static void
add_pending(struct qwen_cuda_work *w)
{
	size_t n = w->p->n * w->net->hp.n_embd;
	struct dev_add a = { .x = QWEN_CUDA_P(w->array[QWEN_CUDA_X]),
	    .y = QWEN_CUDA_P(w->array[QWEN_CUDA_OUT]), .n = (u32)n };
	struct qwen_cuda_launch l = { .module = "rows", .name = "add_rows",
	    .x = (unsigned)((n + 255) / 256), .threads = 256 };

	if (w->pending && n > 0)
		qwen_cuda_run(w->c->card, &l, &a, sizeof a);
	w->pending = 0;
}

static void
cuda_get(struct qwen_work *work, const struct qwen_pass *p, float *x)
{
	struct qwen_cuda_work *w = enter(work, p);

	add_pending(w);
	qwen_cuda_get(w->c->card, x, w->array[QWEN_CUDA_X],
	    p->n * w->width[QWEN_CUDA_X]);
	qwen_cuda_fetch_flags(w);
}

static void
norm_rows(struct qwen_cuda_work *w, cu_ptr weights, size_t place)
{
	qwen_cuda_norm(w, weights, w->pending, place);
	w->pending = 0;
}

/* Moves n rows of an array to its front, or to another one. */
static void
gather(struct qwen_cuda_work *w, cu_ptr x, cu_ptr at, cu_ptr y, size_t n)
{
	struct dev_gather a = { .x = QWEN_CUDA_P(x), .at = QWEN_CUDA_P(at),
	    .y = QWEN_CUDA_P(y), .n = (u32)w->net->hp.n_embd };
	struct qwen_cuda_launch l = { .module = "rows", .name = "gather_rows",
	    .x = (unsigned)n, .threads = 256 };

	if (n > 0)
		qwen_cuda_run(w->c->card, &l, &a, sizeof a);
}

/* Drops the rows whose results are not needed. */
static void
drop_rows(struct qwen_cuda_work *w, struct qwen_pass *p)
{
	uint32_t *at = (uint32_t *)(void *)w->host;
	size_t n = qwen_pass_wanted(p, at);
	cu_ptr place = w->array[QWEN_CUDA_UP];	/* unused by now */

	if (n == p->n)
		return;
	add_pending(w);
	qwen_cuda_put(w->c->card, place, at, n * sizeof *at);
	gather(w, w->array[QWEN_CUDA_X], place, w->array[QWEN_CUDA_OUT], n);
	qwen_cuda_copy(w->c->card, w->array[QWEN_CUDA_X],
	    w->array[QWEN_CUDA_OUT], n * w->width[QWEN_CUDA_X]);
	qwen_pass_drop(p);
	qwen_cuda_send_deep(w, p->last);
	qwen_cuda_send(w);
}

static void
run_mixer(struct qwen_cuda_work *w, struct qwen_pass *p,
    const struct qwen_cuda_layer *l)
{
	size_t i = l->of->index;

	norm_rows(w, l->mixer_norm, QWEN_PLACE_FFN(i) - 2);
	if (i == p->last)
		w->pass.row = QWEN_CUDA_P(w->row_last);
	if (l->of->mixer == QWEN_DELTANET)
		qwen_cuda_deltanet(w, l);
	else
		qwen_cuda_attention(w, l);
	w->pending = 1;
	if (i == p->last) {
		w->pass.row = QWEN_CUDA_P(w->sent);
		drop_rows(w, p);
	}
}

/* Adds what rows add to the result of a layer. */
static void
add_deep(struct qwen_cuda_work *w, size_t layer)
{
	const struct qwen_hparams *h = &w->net->hp;
	struct dev_deep a = { .pass = w->pass,
	    .x = QWEN_CUDA_P(w->array[QWEN_CUDA_OUT]),
	    .y = QWEN_CUDA_P(w->array[QWEN_CUDA_DEEP]), .n = (u32)h->n_embd,
	    .layer = (u32)layer, .n_layer = (u32)h->n_deepstack };

	if (layer < h->n_deepstack && w->n_deep > 0)
		qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
		    .module = "rows", .name = "add_deep",
		    .x = (unsigned)w->p->n, .threads = 256 }, &a, sizeof a);
}

static void
run_ffn(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	if (l->of->ffn == QWEN_NO_FFN || w->p->n == 0)
		return;
	norm_rows(w, l->ffn_norm, QWEN_PLACE_MIXER(l->of->index));
	if (l->of->ffn == QWEN_MOE)
		qwen_cuda_moe(w, l);
	else
		qwen_cuda_mlp(w, l);
	add_deep(w, l->of->index);
	w->pending = 1;
}

/* Does one of n halves of layers need the angles of RoPE? */
static int
has_attention(const struct qwen_net *net, size_t first, size_t n)
{
	size_t i;

	for (i = first; i < first + n; i++) {
		if (i % 2 == 0 && qwen_net_layer(net, i / 2)->mixer ==
		    QWEN_ATTENTION)
			return 1;
	}
	return 0;
}

static void
cuda_run(struct qwen_work *work, struct qwen_pass *p, size_t first, size_t n)
{
	struct qwen_cuda_work *w = enter(work, p);
	const struct qwen_cuda_layer *l;
	size_t i;
	int again;

	if (p->n == 0)
		return;
	add_pending(w);
	if (has_attention(w->net, first, n))
		qwen_cuda_send_turns(w);
	qwen_cuda_send_deep(w, first / 2);
	qwen_cuda_send(w);
	again = qwen_cuda_graph_begin(w, first, n);
	for (i = first; i < first + n; i++) {
		l = &w->c->layer[i / 2];
		if (!again && i % 2 == 0)
			run_mixer(w, p, l);
		else if (!again)
			run_ffn(w, l);
		if (i % 2 != 0 && p->layer != NULL)
			p->layer(p->arg, i / 2);
	}
	qwen_cuda_graph_end(w);
	w->pending = 1;
}

/* Fetches the flags unless head, which fetches them too, comes next. */
static void
cuda_norm(struct qwen_work *work, const struct qwen_pass *p,
    enum qwen_head head, float *hidden)
{
	struct qwen_cuda_work *w = enter(work, p);
	size_t i, n = 0, n_layer = w->net->hp.n_layer;

	if (!w->is_sent)
		qwen_cuda_send(w);
	if (p->n > 0 && head == QWEN_HEAD_OUTPUT)
		norm_rows(w, w->c->output_norm, QWEN_PLACE_FFN(n_layer - 1));
	else if (p->n > 0)
		norm_rows(w, w->c->layer[n_layer].head_norm,
		    QWEN_PLACE_FFN(n_layer));
	if (hidden != NULL)
		qwen_cuda_get(w->c->card, hidden, w->array[QWEN_CUDA_XN],
		    p->n * w->width[QWEN_CUDA_XN]);
	for (i = 0; i < p->n_share; i++)
		n += p->share[i].n - p->share[i].want;
	if (hidden != NULL || n == 0)
		qwen_cuda_fetch_flags(w);
}

/* Returns n rows of a matrix, from row r on. */
static struct qwen_cuda_weight
rows_of(const struct qwen_cuda_weight *m, size_t r, size_t n)
{
	struct qwen_cuda_weight part = *m;

	part.data += r * m->row_bytes;
	part.bias += m->bias != 0 ? r * sizeof(float) : 0;
	part.lora_at += (uint32_t)r;
	part.n_out = (uint32_t)n;
	return part;
}

/*
 * Computes the logits of up to QWEN_CUDA_HEAD_ROWS rows: those of the first rows
 * of the head, then those of its last ones.
 */
static void
head_rows(struct qwen_cuda_work *w, const struct qwen_cuda_weight *m,
    size_t first, size_t last, const uint32_t *at, size_t n, float *const *y)
{
	struct qwen_cuda_weight part[] = { rows_of(m, 0, first),
	    rows_of(m, m->n_out - last, last) };
	size_t i, n_embd = w->net->hp.n_embd;
	struct qwen_cuda_rows x = { .x = w->array[QWEN_CUDA_XN],
	    .groups = w->array[QWEN_CUDA_GROUPS_X], .stride = n_embd, .n = n };

	for (i = 0; at != NULL && i < n && at[i] == i; i++)
		;
	if (at != NULL && i < n) {
		qwen_cuda_put(w->c->card, w->array[QWEN_CUDA_UP], at,
		    n * sizeof *at);
		x.x = w->array[QWEN_CUDA_OUT];
		gather(w, w->array[QWEN_CUDA_XN], w->array[QWEN_CUDA_UP], x.x,
		    n);
		qwen_cuda_quantize(w, x.x, n_embd, n_embd, n);
		x.groups = w->array[QWEN_CUDA_GROUPS];
	}
	qwen_cuda_multiply(w, &part[0], &x, w->logits, first + last);
	if (last > 0)
		qwen_cuda_multiply(w, &part[1], &x, w->logits +
		    first * sizeof(float), first + last);
	qwen_cuda_fetch_logits(w, n, first + last, y);
}

static void
cuda_head(struct qwen_work *work, const struct qwen_pass *p,
    enum qwen_head head, const uint32_t *at, size_t n, float *const *y)
{
	struct qwen_cuda_work *w = enter(work, p);
	const struct qwen_cuda_weight *matrix = head == QWEN_HEAD_OUTPUT ?
	    &w->c->output : &w->c->layer[w->net->hp.n_layer].head;
	size_t i, k, m, first = matrix->n_out, last = 0;
	uint32_t *rows = (uint32_t *)(void *)w->host;

	if (head == QWEN_HEAD_DRAFT)
		last = qwen_draft_rows(w->net, &first) - first;
	for (i = 0; i < n; i += m) {
		m = n - i < QWEN_CUDA_HEAD_ROWS ? n - i : QWEN_CUDA_HEAD_ROWS;
		for (k = 0; k < m; k++)
			rows[k] = at != NULL ? at[i + k] : (uint32_t)(i + k);
		head_rows(w, matrix, first, last, rows, m, y + i);
	}
}

const struct qwen_device qwen_cuda_device = {
	.name = "cuda",
	.remote = 1,
	.numbered = 1,
	.open = cuda_open,
	.close = cuda_close,
	.plan = cuda_plan,
	.describe = cuda_describe,
	.work_new = qwen_cuda_work_new,
	.work_free = qwen_cuda_work_free,
	.fit = qwen_cuda_fit,
	.bytes = cuda_bytes,
	.check = cuda_check,
	.embed = cuda_embed,
	.join = qwen_cuda_join,
	.profile = cuda_profile,
	.stats = cuda_stats,
	.put = cuda_put,
	.get = cuda_get,
	.run = cuda_run,
	.norm = cuda_norm,
	.head = cuda_head,
	.replay = qwen_cuda_replay,
	.slot_new = qwen_cuda_slot_new,
	.slot_free = qwen_cuda_slot_free,
	.slot_put = qwen_cuda_slot_put,
	.slot_get = qwen_cuda_slot_get,
	.slot_clear = qwen_cuda_slot_clear,
	.state_new = qwen_cuda_state_new,
	.state_free = qwen_cuda_state_free,
	.state_put = qwen_cuda_state_put,
	.state_get = qwen_cuda_state_get,
};
