/* SPDX-License-Identifier: ISC */
/*
 * attention.c - attention on a card: products to q, k and v, then queries attend
 * to chunks of keys, whose results are merged.
 *
 * Results of chunks are in the scratch memory.  Where it is too small for all
 * rows, these take turns.
 */
#include "engine/cuda/attention.h"
#include "engine/cuda/cuda.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/kernel/attend.h"

enum {
	MERGE_THREADS = 128,
	SCRATCH = 64 << 20,	/* bytes, if they suffice for a row */
};

/* Returns the chunks of `end' keys, as a power of two. */
static size_t
chunks(size_t end)
{
	size_t n = 1;

	while (n * DEV_CHUNK < end)
		n *= 2;
	return n;
}

/* Returns the bytes of the results that the chunks of a row give. */
static uint64_t
row_bytes(const struct qwen_hparams *h, size_t n_chunk)
{
	return (uint64_t)n_chunk * h->n_head * DEV_PART(h->n_embd_head) *
	    sizeof(float);
}

uint64_t
qwen_cuda_attention_scratch(const struct qwen_net *net, size_t n, size_t end)
{
	uint64_t row = row_bytes(&net->hp, chunks(end)), all = n * row;

	if (net->hp.n_head == 0 || n == 0)
		return 0;
	return all < SCRATCH ? all : row > SCRATCH ? row : SCRATCH;
}

static struct dev_attend
argument(const struct qwen_cuda_work *w, const struct qwen_cuda_layer *l,
    size_t block)
{
	const struct qwen_hparams *h = &w->net->hp;
	const uint32_t d = (uint32_t)h->n_embd_head;
	const int two = w->net->operands[QWEN_AS_TWO_Q8];

	return (struct dev_attend){ .pass = w->pass,
	    .in = QWEN_CUDA_P(w->array[QWEN_CUDA_IN]),
	    .out = QWEN_CUDA_P(w->array[QWEN_CUDA_O]),
	    .part = QWEN_CUDA_P(w->scratch),
	    .groups = w->net->operands[QWEN_AS_Q8] || two ?
		QWEN_CUDA_P(w->array[QWEN_CUDA_GROUPS]) : NULL,
	    .group_bytes = qwen_cuda_groups_bytes(w->net, h->n_head * d),
	    .two = (uint32_t)two,
	    .turn = QWEN_CUDA_P(w->array[QWEN_CUDA_TURN]),
	    .q_norm = QWEN_CUDA_P(l->q_norm), .k_norm = QWEN_CUDA_P(l->k_norm),
	    .block = block,
	    .in_width = (uint32_t)(w->width[QWEN_CUDA_IN] / sizeof(float)),
	    .out_width = (uint32_t)(w->width[QWEN_CUDA_O] / sizeof(float)),
	    .turn_width = (uint32_t)(w->width[QWEN_CUDA_TURN] /
		(2 * sizeof(float))),
	    .d = d, .n_head = (uint32_t)h->n_head,
	    .n_head_kv = (uint32_t)h->n_head_kv,
	    .step = l->of->attn.gated ? 2 * d : d, .n_rot = (uint32_t)h->n_rot,
	    .k = h->k, .v = h->v, .scale = h->attn_scale, .eps = h->eps,
	    .place = (uint32_t)QWEN_PLACE_MIXER(l->of->index) };
}

/* Returns the largest number of keys that one of n rows attends to. */
static size_t
longest(const struct qwen_pass *p, size_t first, size_t n)
{
	size_t end = 0, t;

	for (t = first; t < first + n; t++)
		end = p->row[t].slot + 1 > end ? p->row[t].slot + 1 : end;
	return end;
}

/*
 * Queries of a block: as many as a key head has, up to 8, unless that leaves most
 * processors of the card idle.  With less, keys and values are read more often.
 */
static unsigned
queries_at_once(const struct qwen_cuda_work *w, const struct dev_attend *a)
{
	const unsigned each = a->n_head / a->n_head_kv;
	unsigned nq = each > 4 ? 8 : each > 2 ? 4 : 2;

	while (nq > 2 && 3 * (size_t)a->n * a->n_head_kv * a->n_chunk *
	    ((each + nq - 1) / nq) < (size_t)w->c->card->n_sm)
		nq /= 2;
	return nq;
}

/* Rows attend to f16 keys and values, each for itself. */
static void
attend_few(struct qwen_cuda_work *w, const struct dev_attend *a,
    unsigned n_chunk)
{
	static const char *const name[3][3] = {
		{ "attend_few_64_2", "attend_few_64_4", "attend_few_64_8" },
		{ "attend_few_128_2", "attend_few_128_4", "attend_few_128_8" },
		{ "attend_few_256_2", "attend_few_256_4", "attend_few_256_8" },
	};
	const unsigned nq = queries_at_once(w, a);
	const unsigned each = a->n_head / a->n_head_kv;

	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "attend_few", .name = name[a->d / 128][nq / 4],
	    .x = a->n * a->n_head_kv * ((each + nq - 1) / nq),
	    .y = n_chunk, .threads = DEV_FEW_THREADS,
	    .shared = DEV_FEW_SHARED(a->d, nq) }, a, sizeof *a);
}

/* Rows of a session attend to f16 keys and values together. */
static void
attend_tile(struct qwen_cuda_work *w, const struct dev_attend *a,
    unsigned n_chunk)
{
	static const char *const name[3] = {
		"attend_tile_64", "attend_tile_128", "attend_tile_256"
	};
	const unsigned rows = DEV_TILE / (a->n_head / a->n_head_kv);

	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "attend_tile", .name = name[a->d / 128],
	    .x = a->n_head_kv * ((a->n + rows - 1) / rows),
	    .y = n_chunk,
	    .threads = DEV_TILE_THREADS, .shared = DEV_TILE_SHARED },
	    a, sizeof *a);
}

/* Rows attend; the kernel takes all sizes and types. */
static void
attend_any(struct qwen_cuda_work *w, const struct dev_attend *a,
    unsigned n_chunk)
{
	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "attend", .name = "attend_chunk",
	    .x = a->n * a->n_head, .y = n_chunk,
	    .threads = DEV_CHUNK,
	    .shared = (a->d + DEV_CHUNK + DEV_CHUNK / 32) * sizeof(float) },
	    a, sizeof *a);
}

/* Rows attend to keys and values that are integers. */
static void
attend_integers(struct qwen_cuda_work *w, const struct dev_attend *a,
    unsigned n_chunk)
{
	static const char *const name[2][2] = {
		{ "attend_q8_0_q8_0", "attend_q8_0_q4_0" },
		{ "attend_q4_0_q8_0", "attend_q4_0_q4_0" },
	};
	const unsigned each = a->n_head / a->n_head_kv;

	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "attend_integers",
	    .name = name[a->k == QWEN_KV_Q4_0][a->v == QWEN_KV_Q4_0],
	    .x = a->n / a->rows * a->n_head_kv * ((a->rows * each +
	    DEV_INTEGERS - 1) / DEV_INTEGERS), .y = n_chunk,
	    .threads = DEV_INTEGERS_THREADS,
	    .shared = DEV_INTEGERS_SHARED(a->d) }, a, sizeof *a);
}

/* Does all of attention in one launch; returns 0 if it cannot. */
static int
attend_alone(struct qwen_cuda_work *w, const struct dev_attend *all)
{
	struct dev_attend a = *all;
	const unsigned each = a.n_head / a.n_head_kv;
	unsigned nq;

	a.n = (uint32_t)w->p->n;
	a.rows = 1;
	a.counter = QWEN_CUDA_P(w->counter);
	nq = queries_at_once(w, &a);
	if ((a.d != 64 && a.d != 128 && a.d != 256) ||
	    a.k != QWEN_KV_F16 || a.v != QWEN_KV_F16 || !qwen_cuda_are_alone(w->p) ||
	    each * a.d % 256 != 0 || nq * a.d % 256 != 0 ||
	    a.n_chunk > DEV_JOIN_SPAN || w->counter == 0 ||
	    (size_t)a.n * a.n_head > QWEN_CUDA_COUNTERS ||
	    a.n * row_bytes(&w->net->hp, a.n_chunk) > w->scratch_bytes)
		return 0;
	attend_few(w, &a, a.n_chunk);
	return 1;
}

typedef void attend_fn(struct qwen_cuda_work *w, const struct dev_attend *a,
    unsigned n_chunk);

/* Which kernel serves many rows: that of f16, that of integers, or none? */
static attend_fn *
kernel_of(const struct dev_attend *a)
{
	if (qwen_kv_width(a->k) == 0 && qwen_kv_width(a->v) == 0)
		return attend_integers;
	if ((a->d != 64 && a->d != 128 && a->d != 256) ||
	    a->k != QWEN_KV_F16 || a->v != QWEN_KV_F16)
		return attend_any;
	/* tiles read four numbers of a query at once */
	return a->n_head / a->n_head_kv <= DEV_TILE && a->in_width % 4 == 0 ?
	    attend_tile : attend_few;
}

/* Returns how many of the rows from t on, of n, are of its session. */
static size_t
rows_of_session(const struct qwen_pass *p, size_t t, size_t n)
{
	const struct qwen_share *s = &p->share[p->owner[t]];

	return s->first + s->n - t < n ? s->first + s->n - t : n;
}

/*
 * Rows of one session, or of several with few rows each, attend.  A recorded pass
 * is launched again where chunks are as many as a->n_chunk at most.
 */
static void
attend_part(struct qwen_cuda_work *w, struct dev_attend *a, int together)
{
	const size_t end = longest(w->p, a->first, a->n);
	const unsigned n_chunk = w->p->n <= QWEN_CUDA_GRAPH_ROWS ? a->n_chunk :
	    (unsigned)((end + DEV_CHUNK - 1) / DEV_CHUNK);
	attend_fn *fn = kernel_of(a);

	a->rows = together ? a->n : 1;
	if (fn == attend_tile && (!together || a->n * (a->n_head /
	    a->n_head_kv) <= DEV_TILE / 2))
		fn = attend_few;
	fn(w, a, n_chunk);
}

/*
 * Rows first .. first + n - 1 attend: those of a session together if they are
 * many, others at once.  How the rows of a recorded pass are shared among several
 * sessions changes.
 */
static void
attend(struct qwen_cuda_work *w, const struct dev_attend *all, size_t first,
    size_t n)
{
	const struct qwen_pass *p = w->p;
	const size_t few = DEV_INTEGERS / (all->n_head / all->n_head_kv);
	const int one = p->n_share == 1;
	struct dev_attend a = *all;
	size_t t, some, more;
	int together;

	for (t = first; t < first + n; t += some) {
		some = one ? n : p->n <= QWEN_CUDA_GRAPH_ROWS ? 1 :
		    rows_of_session(p, t, first + n - t);
		together = one || some > few;
		while (!together && t + some < first + n) {
			more = p->n <= QWEN_CUDA_GRAPH_ROWS ? 1 :
			    rows_of_session(p, t + some, first + n - t - some);
			if (more > few)
				break;
			some += more;
		}
		a.first = (uint32_t)t;
		a.n = (uint32_t)some;
		a.part = QWEN_CUDA_P(w->scratch + (t - first) *
		    row_bytes(&w->net->hp, a.n_chunk));
		attend_part(w, &a, together);
	}
}

/* Merges chunks of rows first .. first + n - 1, and makes their groups. */
static void
merge(struct qwen_cuda_work *w, const struct dev_attend *all, size_t first,
    size_t n)
{
	const size_t n_out = (size_t)all->n_head * all->d;
	struct dev_attend a = *all;

	a.first = (uint32_t)first;
	a.n = (uint32_t)n;
	if (DEV_JOIN % a.d == 0) {
		qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
		    .module = "attend_merge", .name = "attend_join",
		    .x = (unsigned)(n * ((n_out + DEV_JOIN - 1) / DEV_JOIN)),
		    .threads = DEV_JOIN, .shared = DEV_JOIN_SHARED(a.d) },
		    &a, sizeof a);
		return;
	}
	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "attend_merge", .name = "attend_merge",
	    .x = a.n * a.n_head, .threads = MERGE_THREADS,
	    .shared = (3 * DEV_CHUNK + a.d + 1) * sizeof(float) }, &a,
	    sizeof a);
}

void
qwen_cuda_attend(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l,
    size_t block)
{
	const struct qwen_pass *p = w->p;
	struct dev_attend a = argument(w, l, block);
	size_t n_chunk = longest(p, 0, p->n), t, some, most;

	n_chunk = p->n <= QWEN_CUDA_GRAPH_ROWS ? chunks(n_chunk) :
	    (n_chunk + DEV_CHUNK - 1) / DEV_CHUNK;
	a.n_chunk = (uint32_t)n_chunk;
	if (attend_alone(w, &a))
		return;
	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "attend", .name = "attend_prepare", .x = (unsigned)p->n,
	    .y = (a.n_head + 2 * a.n_head_kv + DEV_PREPARE_WARPS - 1) /
	    DEV_PREPARE_WARPS, .threads = 32 * DEV_PREPARE_WARPS,
	    .shared = DEV_PREPARE_WARPS * a.d * sizeof(float) }, &a, sizeof a);
	most = (size_t)(w->scratch_bytes / row_bytes(&w->net->hp, n_chunk));
	for (t = 0; t < p->n; t += some) {
		some = p->n - t < most ? p->n - t : most;
		attend(w, &a, t, some);
		merge(w, &a, t, some);
	}
	if (DEV_JOIN % a.d != 0)
		qwen_cuda_quantize(w, w->array[QWEN_CUDA_O], a.out_width,
		    (size_t)a.n_head * a.d, p->n);
}

void
qwen_cuda_attention(struct qwen_cuda_work *w, const struct qwen_cuda_layer *l)
{
	const struct qwen_hparams *h = &w->net->hp;
	const size_t width = w->width[QWEN_CUDA_IN] / sizeof(float);
	const size_t out = w->width[QWEN_CUDA_O] / sizeof(float);
	cu_ptr in = w->array[QWEN_CUDA_IN];
	const struct qwen_attention *of = &l->of->attn;
	cu_ptr k = in + of->q.n_out * sizeof(float);
	struct qwen_cuda_rows x = { .x = w->array[QWEN_CUDA_XN],
	    .groups = w->array[QWEN_CUDA_GROUPS_X],
	    .stride = h->n_embd, .n = w->p->n };

	qwen_cuda_multiply(w, &l->q, &x, in, width);
	/* q may have the rows of k, or of both */
	if (l->k.data != 0)
		qwen_cuda_multiply(w, &l->k, &x, k, width);
	if (l->v.data != 0)
		qwen_cuda_multiply(w, &l->v, &x, k + of->k.n_out *
		    sizeof(float), width);
	qwen_cuda_attend(w, l, qwen_cuda_place_of(w, l->of->index).block);
	x = (struct qwen_cuda_rows){ .x = w->array[QWEN_CUDA_O],
	    .groups = w->array[QWEN_CUDA_GROUPS], .stride = out,
	    .n = w->p->n };
	qwen_cuda_multiply(w, &l->output, &x, w->array[QWEN_CUDA_OUT],
	    h->n_embd);
}
