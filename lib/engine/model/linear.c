/* SPDX-License-Identifier: ISC */
/* linear.c - products with weights, shared out over threads by rows. */
#include "engine/model/forward.h"

/* What goes with a matrix beside its weights: a rounding each. */
static void
scale_and_shift(const struct qwen_weight *w, const struct qwen_matmul *m)
{
	size_t at = (size_t)(m->w - w->data), t, r;
	float scale = 1;
	const float *bias = w->bias;

	if (w->scale != NULL)
		scale = w->scale[w->expert_bytes > 0 ? at / w->expert_bytes :
		    0];
	if (bias != NULL)
		bias += at / w->row_bytes;
	for (t = 0; t < m->n_tok; t++) {
		float *y = m->y[t];

		for (r = m->r0; r < m->r1; r++) {
			y[r] *= scale;
			if (bias != NULL)
				y[r] += bias[r];
		}
	}
}

void
qwen_batch_multiply(struct qwen_batch *b, const struct qwen_weight *w,
    const struct qwen_matmul *m, int thread)
{
	struct qwen_profile *p = &b->m->profile;
	uint64_t begin = qwen_profile_begin(p), rows = m->r1 - m->r0;
	int gemm = qwen_multiply(w->matmul, w->gemm, m);

	if (w->scale != NULL || w->bias != NULL)
		scale_and_shift(w, m);
	qwen_profile_end(p, thread, (enum qwen_stage)((gemm ?
	    QWEN_STAGE_GEMM : QWEN_STAGE_MATMUL) + w->quant->type), begin,
	    rows * m->row_bytes, rows * m->n_in * m->n_tok);
}

struct job {
	struct qwen_batch		*b;
	const struct qwen_linear	*lin;
	size_t				 n_lin;
	const float			*x;
	size_t				 stride;
	const unsigned char		*xq;
	const uint32_t			*at;
	size_t				 n;
	size_t				 chunk;	/* rows of an item */
};

static size_t
chunks_of(const struct qwen_weight *w, size_t chunk)
{
	return (w->n_out + chunk - 1) / chunk;
}

/* The rows of the item after this one of matrix l; NULL: it is the last. */
static const unsigned char *
rows_after(const struct job *j, const struct qwen_linear *l, size_t item)
{
	if (item + 1 < chunks_of(l->w, j->chunk))
		return l->w->data + (item + 1) * j->chunk * l->w->row_bytes;
	return ++l < j->lin + j->n_lin ? l->w->data : NULL;
}

/* Item: a chunk of rows of one of the matrices, counted through the list. */
static void
do_rows(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_linear *l = j->lin;
	const struct qwen_weight *w;
	struct qwen_scratch *s = j->b->b;
	const void **xp = s->xp + (size_t)thread * s->slots;
	float **yp = s->yp + (size_t)thread * s->slots;
	struct qwen_matmul mm;
	size_t t, i, r;

	for (; item >= chunks_of(l->w, j->chunk); l++)
		item -= chunks_of(l->w, j->chunk);
	w = l->w;
	mm = (struct qwen_matmul){ .w = w->data, .row_bytes = w->row_bytes,
	    .n_in = w->n_in, .quant = w->quant, .x = xp, .y = yp,
	    .r0 = item * j->chunk };
	mm.r1 = mm.r0 + j->chunk < w->n_out ? mm.r0 + j->chunk : w->n_out;
	for (t = 0; t < j->n; t += mm.n_tok) {
		mm.n_tok = j->n - t < QWEN_TOKEN_CHUNK ? j->n - t :
		    QWEN_TOKEN_CHUNK;
		if (t + mm.n_tok == j->n)
			mm.next = rows_after(j, l, item);
		for (i = 0; i < mm.n_tok; i++) {
			r = j->at != NULL ? j->at[t + i] : t + i;
			xp[i] = qwen_wants_operand(w) ?
			    (const void *)qwen_operand(j->b, j->xq, j->stride,
			    r) : (const void *)(j->x + r * j->stride);
			yp[i] = l->rows != NULL ? l->rows[t + i] :
			    l->y + r * l->stride;
		}
		qwen_batch_multiply(j->b, w, &mm, thread);
	}
}

void
qwen_linears(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const unsigned char *xq,
    const uint32_t *at, size_t n)
{
	struct job j = { b, lin, n_lin, x, stride, xq, at, n,
	    n < QWEN_MANY_TOKENS ? QWEN_ROW_CHUNK_FEW : QWEN_ROW_CHUNK_MANY };
	size_t i, items = 0;

	for (i = 0; i < n_lin; i++)
		items += chunks_of(lin[i].w, j.chunk);
	qwen_pool_run(b->m->pool, do_rows, &j, items);
}

/* Tokens one thread takes at a time, at most. */
#define TOKENS 4

struct token_job {
	struct qwen_batch	*b;
	enum qwen_stage		 stage;
	void			(*fn)(struct qwen_batch *, void *, size_t);
	void			*arg;
	size_t			 many;	/* tokens an item */
};

static void
do_tokens(void *arg, size_t item, int thread)
{
	const struct token_job *j = arg;
	struct qwen_profile *p = &j->b->m->profile;
	uint64_t begin = qwen_profile_begin(p);
	size_t t, end = (item + 1) * j->many;

	for (t = item * j->many; t < end && t < j->b->n; t++)
		j->fn(j->b, j->arg, t);
	qwen_profile_end(p, thread, j->stage, begin, 0, 0);
}

void
qwen_each_token(struct qwen_batch *b, enum qwen_stage stage,
    void (*fn)(struct qwen_batch *b, void *arg, size_t t), void *arg)
{
	size_t nt = (size_t)qwen_pool_threads(b->m->pool);
	struct token_job j = { b, stage, fn, arg, TOKENS };

	while (j.many > 1 && b->n < nt * j.many)
		j.many /= 2;
	qwen_pool_run(b->m->pool, do_tokens, &j, (b->n + j.many - 1) / j.many);
}
