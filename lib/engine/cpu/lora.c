/* SPDX-License-Identifier: ISC */
/*
 * lora.c - what adapters add to a product: y = fma(low_k, B_rk, y) for k
 * ascending, with low = s * (A x).
 */
#include "engine/cpu/cpu.h"
#include "engine/cpu/lora.h"

/* Rows of A that one thread takes: few tokens, and many; tokens of those. */
enum { ROWS_FEW = 4, ROWS_MANY = 16, TOKENS = 24 };

/* Rows k0 to k1-1 of A, for inputs and outputs that xp and yp point to. */
static void
multiply(struct qwen_batch *b, const struct qwen_lora *l, size_t e, size_t k0,
    size_t k1, const void *const *x, float *const *y, size_t n, int thread)
{
	uint64_t begin = qwen_profile_begin(&b->cpu->profile);
	struct qwen_matmul mm = { .w = l->a.data + e * l->a.expert_bytes,
	    .row_bytes = l->a.row_bytes, .n_in = l->a.n_in,
	    .quant = l->a.quant, .x = x, .y = y, .n_tok = n, .r0 = k0,
	    .r1 = k1 };
	size_t t, k;

	qwen_multiply(qwen_matmul_of(b->cpu, &l->a), NULL, &mm);
	for (t = 0; t < n; t++) {
		for (k = k0; k < k1; k++)
			y[t][k] *= l->scale;
	}
	qwen_profile_end(&b->cpu->profile, thread, QWEN_STAGE_LORA, begin,
	    (k1 - k0) * l->a.row_bytes, (k1 - k0) * l->a.n_in * n);
}

void
qwen_lora_low(struct qwen_batch *b, const struct qwen_weight *w, size_t e,
    const void **x, float **y, size_t n, float *low, size_t stride, int thread)
{
	const struct qwen_lora *l;
	size_t i, t, at = 0;

	for (i = 0; i < w->lora->n; i++) {
		l = &w->lora->v[i];
		for (t = 0; t < n; t++)
			y[t] = low + t * stride + at;
		multiply(b, l, e, 0, l->rank, x, y, n, thread);
		at += l->rank;
	}
}

struct job {
	struct qwen_batch		*b;
	const struct qwen_linear	*lin;
	size_t				 n_lin;
	const float			*x;
	size_t				 stride;
	const uint32_t			*at;
	size_t				 n;
	size_t				 rows, tokens;	/* of an item */
};

/* Has the matrix before it the same set? */
static int
is_again(const struct job *j, size_t i)
{
	return i > 0 && j->lin[i].w->lora == j->lin[i - 1].w->lora;
}

static size_t
parts(size_t n, size_t size)
{
	return (n + size - 1) / size;
}

static size_t
items_of(const struct job *j, const struct qwen_lora *l)
{
	return parts(l->rank, j->rows) * parts(j->n, j->tokens);
}

/* Rows k0 and on of the addition, tokens t0 and on; low is that of token 0. */
static void
do_part(const struct job *j, const struct qwen_lora *l, size_t item,
    float *low, size_t width, int thread)
{
	struct qwen_scratch *s = j->b->s;
	const void **xp = s->thread.xp + (size_t)thread * s->slots;
	float **yp = s->thread.yp + (size_t)thread * s->slots;
	size_t k0 = item % parts(l->rank, j->rows) * j->rows;
	size_t t0 = item / parts(l->rank, j->rows) * j->tokens, t, n, r;

	n = j->n - t0 < j->tokens ? j->n - t0 : j->tokens;
	for (t = 0; t < n; t++) {
		r = j->at != NULL ? j->at[t0 + t] : t0 + t;
		xp[t] = j->x + r * j->stride;
		yp[t] = low + (t0 + t) * width;
	}
	multiply(j->b, l, 0, k0, k0 + j->rows < l->rank ? k0 + j->rows :
	    l->rank, xp, yp, n, thread);
}

/* Item: some rows of an A, and some tokens, counted through the list. */
static void
do_low(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	float *low = j->b->s->low.v;
	const struct qwen_lora_set *set;
	size_t i, k, n, at;

	for (i = 0; i < j->n_lin; i++) {
		set = j->lin[i].w->lora;
		if (set == NULL || is_again(j, i))
			continue;
		for (k = at = 0; k < set->n; k++) {
			n = items_of(j, &set->v[k]);
			if (item < n) {
				do_part(j, &set->v[k], item, low + at,
				    set->width, thread);
				return;
			}
			item -= n;
			at += set->v[k].rank;
		}
		low += j->n * set->width;
	}
}

void
qwen_lora_lows(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const uint32_t *at, size_t n)
{
	int many = n >= QWEN_MANY_TOKENS;
	struct job j = { .b = b, .lin = lin, .n_lin = n_lin, .x = x,
	    .stride = stride, .at = at, .n = n,
	    .rows = many ? ROWS_MANY : ROWS_FEW, .tokens = TOKENS };
	const struct qwen_lora_set *set;
	size_t i, k, items = 0;

	for (i = 0; i < n_lin; i++) {
		set = lin[i].w->lora;
		for (k = 0; set != NULL && !is_again(&j, i) && k < set->n; k++)
			items += items_of(&j, &set->v[k]);
	}
	if (items > 0)
		qwen_pool_run(b->cpu->pool, do_low, &j, items);
}

void
qwen_lora_ahead(const struct qwen_lora_rows *p)
{
	const struct qwen_lora_set *set = p->w->lora;
	const struct qwen_lora *l;
	const float *b;
	size_t i, k, r, at;

	for (i = 0; i < set->n; i++) {
		l = &set->v[i];
		for (r = 0; r < p->n_rows; r += 16) {
			at = p->w->lora_at + p->r0 + r;
			b = l->b + p->e * l->b_expert + qwen_low_at(l->rank, at);
			for (k = 0; k < l->rank; k++)
				__builtin_prefetch(b + k * QWEN_LOW_ROWS, 0, 2);
		}
	}
}

void
qwen_lora_add(struct qwen_batch *b, const struct qwen_lora_rows *p,
    int thread)
{
	const struct qwen_lora_set *set = p->w->lora;
	uint64_t begin = qwen_profile_begin(&b->cpu->profile);
	struct qwen_low low = { .r = p->w->lora_at + p->r0,
	    .n_rows = p->n_rows, .low = p->low, .low_stride = p->stride,
	    .y = p->y, .y_at = p->y_at, .n_tok = p->n };
	size_t i;

	for (i = 0; i < set->n; i++, low.low += low.rank) {
		low.b = set->v[i].b + p->e * set->v[i].b_expert;
		low.rank = set->v[i].rank;
		b->vec->low(&low);
	}
	qwen_profile_end(&b->cpu->profile, thread, QWEN_STAGE_LORA, begin,
	    set->width * p->n_rows * sizeof *low.b,
	    set->width * p->n_rows * p->n);
}

/* --------------------------------------------------------------- embeddings */

void
qwen_lora_embed(const struct qwen_batch *b, const struct qwen_weight *w,
    size_t id, float *x, float *low)
{
	const struct qwen_lora_set *set = w->lora;
	const struct qwen_lora *l;
	size_t i, k;

	for (i = 0; set != NULL && i < set->n; i++) {
		l = &set->v[i];
		qwen_quant_values(l->a.quant, l->a.data + id * l->a.row_bytes,
		    l->rank, low);
		for (k = 0; k < l->rank; k++)
			low[k] *= l->scale;
		b->vec->low(&(struct qwen_low){ .b = l->b, .rank = l->rank,
		    .n_rows = l->n_out, .low = low, .y = &x, .n_tok = 1 });
	}
}
