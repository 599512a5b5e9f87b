/* SPDX-License-Identifier: ISC */
/* linear.c - products with weights, shared out over threads by rows. */
#include <assert.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/lora.h"

/* Applies a matrix's scale and bias; each rounds once. */
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

/* Lists the rows that n tokens are multiplied as: one each, or two. */
static size_t
rows_of(const struct qwen_weight *w, const void **rows, const void *const *x,
    size_t n)
{
	size_t i, terms = qwen_terms(w);

	assert(n * terms <= QWEN_TOKEN_CHUNK);
	for (i = 0; i < n; i++) {
		rows[i * terms] = x[i];
		if (terms == 2)
			rows[2 * i + 1] = (const struct qwen_q8 *)x[i] +
			    QWEN_Q8_GROUPS(w->n_in);
	}
	return n * terms;
}

size_t
qwen_batch_packed_bytes(const struct qwen_weight *w,
    const struct qwen_packing *k, size_t n)
{
	return qwen_packed_bytes(k, n * qwen_terms(w), w->n_in);
}

void
qwen_batch_pack(const struct qwen_weight *w, const struct qwen_packing *k,
    void *p, const void *const *x, size_t n)
{
	const void *rows[QWEN_TOKEN_CHUNK];

	n = rows_of(w, rows, x, n);
	qwen_pack(k, p, rows, n, w->n_in);
}

/* Packs the tokens as the kernel takes them, unless they are packed already. */
static void
pack_own(struct qwen_batch *b, const struct qwen_weight *w,
    struct qwen_matmul *m, int thread)
{
	const struct qwen_packing *k = qwen_packing_of(b->cpu, w, m);
	struct qwen_profile *p = &b->cpu->profile;
	struct qwen_scratch *s = b->s;
	uint64_t begin = qwen_profile_begin(p);
	unsigned char *to = s->thread.packed + (size_t)thread * s->thread.packed_bytes;

	if (k == NULL || (m->packing != NULL && m->packing->kind == k->kind))
		return;
	assert(qwen_batch_packed_bytes(w, k, m->n_tok) <= s->thread.packed_bytes);
	qwen_batch_pack(w, k, to, m->x, m->n_tok);
	m->packing = k;
	m->packed = to;
	qwen_profile_end_for(p, thread, QWEN_STAGE_PACK, w->purpose, begin,
	    qwen_batch_packed_bytes(w, k, m->n_tok), 0);
}

/* Multiplies each token as two rows and adds the products: qwen-numerics(7). */
static int
multiply_both(struct qwen_batch *b, const struct qwen_weight *w,
    const struct qwen_matmul *m, int thread)
{
	const void *x[QWEN_TOKEN_CHUNK];
	float *y[QWEN_TOKEN_CHUNK];
	float *second = b->s->thread.second + (size_t)thread * QWEN_TOKEN_CHUNK / 2 *
	    QWEN_ROW_CHUNK_MANY;
	struct qwen_matmul both = *m;
	size_t t, n = m->r1 - m->r0;
	int gemm;

	assert(n <= QWEN_ROW_CHUNK_MANY);
	both.w += m->r0 * m->row_bytes;
	both.r0 = 0;
	both.r1 = n;
	both.x = x;
	both.y = y;
	both.n_tok = rows_of(w, x, m->x, m->n_tok);
	both.plain = 1;
	for (t = 0; t < m->n_tok; t++) {
		y[2 * t] = m->y[t] + m->r0;
		y[2 * t + 1] = second + t * n;
	}
	gemm = qwen_multiply(qwen_matmul_of(b->cpu, w), qwen_gemms_of(b->cpu, w), &both);
	for (t = 0; t < m->n_tok; t++)
		b->vec->axpy(m->y[t] + m->r0, 1.0f, second + t * n, n);
	return gemm;
}

void
qwen_batch_multiply(struct qwen_batch *b, const struct qwen_weight *w,
    struct qwen_matmul *m, int thread)
{
	struct qwen_profile *p = &b->cpu->profile;
	uint64_t begin, rows = m->r1 - m->r0;
	int gemm;

	pack_own(b, w, m, thread);
	begin = qwen_profile_begin(p);
	gemm = qwen_terms(w) == 2 ? multiply_both(b, w, m, thread) :
	    qwen_multiply(qwen_matmul_of(b->cpu, w), qwen_gemms_of(b->cpu, w), m);
	if (w->scale != NULL || w->bias != NULL)
		scale_and_shift(w, m);
	qwen_profile_end_for(p, thread, (enum qwen_stage)((gemm ?
	    QWEN_STAGE_GEMM : QWEN_STAGE_MATMUL) + w->quant->type),
	    w->purpose, begin, rows * m->row_bytes,
	    rows * m->n_in * m->n_tok * qwen_terms(w));
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
	/* how all are packed, and where; one of the weights for which */
	const struct qwen_weight	*quantised;
	const struct qwen_packing	*packing[QWEN_PACK_KINDS];
	unsigned char			*packed[QWEN_PACK_KINDS];
};

/* Returns input row t in the form that the weight takes. */
static const void *
input(const struct job *j, const struct qwen_weight *w, size_t t)
{
	size_t r = j->at != NULL ? j->at[t] : t;

	return qwen_wants_operand(w) ? (const void *)qwen_operand(j->b, w,
	    j->xq, j->stride, r) : (const void *)(j->x + r * j->stride);
}

static size_t
chunks_of(const struct qwen_weight *w, size_t chunk)
{
	return (w->n_out + chunk - 1) / chunk;
}

/* Returns the rows of the item after this one; NULL if it is the last. */
static const unsigned char *
rows_after(const struct job *j, const struct qwen_linear *l, size_t item)
{
	if (item + 1 < chunks_of(l->w, j->chunk))
		return l->w->data + (item + 1) * j->chunk * l->w->row_bytes;
	return ++l < j->lin + j->n_lin ? l->w->data : NULL;
}

/* Points mm to its packed tokens, from t on, if they are packed as it needs. */
static void
use_packed(const struct job *j, const struct qwen_weight *w, size_t t,
    struct qwen_matmul *mm)
{
	const struct qwen_packing *k = qwen_packing_of(j->b->cpu, w, mm);

	mm->packing = k != NULL ? j->packing[k->kind] : NULL;
	if (mm->packing != NULL)
		mm->packed = j->packed[k->kind] +
		    qwen_batch_packed_bytes(w, k, t);
}

/* Returns the numbers per row of the adapters' sets before that of l. */
static size_t
low_before(const struct job *j, const struct qwen_linear *l)
{
	const struct qwen_linear *p;
	size_t n = 0;

	for (p = j->lin; p < l; p++) {
		if (p->w->lora != p[1].w->lora)
			n += qwen_lora_width(p->w);
	}
	return n;
}

/* Describes what adapters add to the product mm of the rows from t on. */
static struct qwen_lora_rows
low_rows(const struct job *j, const struct qwen_linear *l, size_t t,
    const struct qwen_matmul *mm)
{
	struct qwen_lora_rows p = { .w = l->w, .r0 = mm->r0,
	    .n_rows = mm->r1 - mm->r0, .stride = qwen_lora_width(l->w),
	    .y = mm->y, .y_at = mm->r0, .n = mm->n_tok };

	p.low = j->b->s->low.v + low_before(j, l) * j->n + t * p.stride;
	return p;
}

/* Item: a chunk of rows of one matrix; items count through the list. */
static void
do_rows(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_linear *l = j->lin;
	const struct qwen_weight *w;
	struct qwen_scratch *s = j->b->s;
	const void **xp = s->thread.xp + (size_t)thread * s->slots;
	float **yp = s->thread.yp + (size_t)thread * s->slots;
	struct qwen_lora_rows low;
	struct qwen_matmul mm;
	size_t t, i, r, most = qwen_token_chunk(j->b->net);

	for (; item >= chunks_of(l->w, j->chunk); l++)
		item -= chunks_of(l->w, j->chunk);
	w = l->w;
	mm = (struct qwen_matmul){ .w = w->data, .row_bytes = w->row_bytes,
	    .n_in = w->n_in, .quant = w->quant, .x = xp, .y = yp,
	    .r0 = item * j->chunk };
	mm.r1 = mm.r0 + j->chunk < w->n_out ? mm.r0 + j->chunk : w->n_out;
	for (t = 0; t < j->n; t += mm.n_tok) {
		mm.n_tok = j->n - t < most ? j->n - t : most;
		if (t + mm.n_tok == j->n)
			mm.next = rows_after(j, l, item);
		for (i = 0; i < mm.n_tok; i++) {
			r = j->at != NULL ? j->at[t + i] : t + i;
			xp[i] = input(j, w, t + i);
			yp[i] = l->rows != NULL ? l->rows[t + i] :
			    l->y + r * l->stride;
		}
		use_packed(j, w, t, &mm);
		if (w->lora != NULL) {
			low = low_rows(j, l, t, &mm);
			qwen_lora_ahead(&low);
		}
		qwen_batch_multiply(j->b, w, &mm, thread);
		if (w->lora != NULL)
			qwen_lora_add(j->b, &low, thread);
	}
}

/* Item: a tile of tokens, packed in each way that the list needs. */
static void
do_pack(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_weight *w = j->quantised;
	struct qwen_profile *p = &j->b->cpu->profile;
	uint64_t begin = qwen_profile_begin(p);
	const void *x[QWEN_PACK_TOKENS];
	size_t most = QWEN_PACK_TOKENS / qwen_terms(w), t = item * most;
	size_t n = j->n - t < most ? j->n - t : most, i, bytes = 0;

	for (i = 0; i < n; i++)
		x[i] = input(j, w, t + i);
	for (i = 0; i < QWEN_PACK_KINDS; i++) {
		if (j->packing[i] == NULL)
			continue;
		qwen_batch_pack(w, j->packing[i], j->packed[i] +
		    qwen_batch_packed_bytes(w, j->packing[i], t), x, n);
		bytes += qwen_batch_packed_bytes(w, j->packing[i], n);
	}
	qwen_profile_end_for(p, thread, QWEN_STAGE_PACK, w->purpose, begin,
	    bytes, 0);
}

/* Packs all tokens in the ways that the products need. */
static void
pack_all(struct job *j)
{
	unsigned char *to = j->b->s->packed;
	const struct qwen_packing *k;
	size_t i, most = qwen_token_chunk(j->b->net), rows = 0;

	for (i = 0; i < j->n_lin; i++) {
		const struct qwen_weight *w = j->lin[i].w;
		struct qwen_matmul m = { .n_in = w->n_in, .quant = w->quant,
		    .n_tok = j->n < most ? j->n : most,
		    .r1 = w->n_out < j->chunk ? w->n_out : j->chunk };

		k = qwen_packing_of(j->b->cpu, w, &m);
		if (k == NULL || j->packing[k->kind] != NULL)
			continue;
		j->quantised = w;
		j->packing[k->kind] = k;
		j->packed[k->kind] = to;
		to += qwen_batch_packed_bytes(w, k, j->n);
		rows = j->n * qwen_terms(w);
	}
	if (rows > 0)
		qwen_pool_run(j->b->cpu->pool, do_pack, j, (rows +
		    QWEN_PACK_TOKENS - 1) / QWEN_PACK_TOKENS);
}

void
qwen_see_inputs(const struct qwen_batch *b, const struct qwen_weight *const *w,
    size_t n_w, const float *x, size_t stride, const uint32_t *at, size_t n)
{
	if (b->pass->see != NULL)
		b->pass->see(b->pass, &(struct qwen_seen){ .w = w, .n_w = n_w,
		    .x = x, .stride = stride, .at = at, .n = n });
}

static void
see_list(const struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const uint32_t *at, size_t n)
{
	const struct qwen_weight *w[QWEN_DELTA_PIECES_MAX];
	size_t i;

	for (i = 0; i < n_lin; i++)
		w[i] = lin[i].w;
	qwen_see_inputs(b, w, n_lin, x, stride, at, n);
}

void
qwen_linears(struct qwen_batch *b, const struct qwen_linear *lin,
    size_t n_lin, const float *x, size_t stride, const unsigned char *xq,
    const uint32_t *at, size_t n)
{
	struct job j = { .b = b, .lin = lin, .n_lin = n_lin, .x = x,
	    .stride = stride, .xq = xq, .at = at, .n = n };
	size_t i, items = 0, rows = 0;

	for (i = 0; i < n_lin; i++)
		rows += lin[i].w->n_out;
	j.chunk = qwen_row_chunk(b->cpu, n, rows, QWEN_ROW_CHUNK_FEW);
	for (i = 0; i < n_lin; i++)
		items += chunks_of(lin[i].w, j.chunk);
	if (b->pass->see != NULL && lin[0].rows == NULL)	/* no head */
		see_list(b, lin, n_lin, x, stride, at, n);
	if (b->net->loras != NULL)
		qwen_lora_lows(b, lin, n_lin, x, stride, at, n);
	pack_all(&j);
	qwen_pool_run(b->cpu->pool, do_rows, &j, items);
}

/* Tokens one thread takes at a time, at most. */
#define TOKENS 4

struct token_job {
	struct qwen_batch	*b;
	enum qwen_stage		 stage;
	void			(*fn)(struct qwen_batch *, void *, size_t);
	void			*arg;
	size_t			 many;	/* tokens an item */
	size_t			 numbers;	/* a token */
};

static void
do_tokens(void *arg, size_t item, int thread)
{
	const struct token_job *j = arg;
	struct qwen_profile *p = &j->b->cpu->profile;
	uint64_t begin = qwen_profile_begin(p);
	size_t t, from = item * j->many, end = from + j->many;

	if (end > j->b->n)
		end = j->b->n;
	for (t = from; t < end; t++)
		j->fn(j->b, j->arg, t);
	qwen_profile_end(p, thread, j->stage, begin,
	    (end - from) * j->numbers * sizeof(float), 0);
}

void
qwen_each_token(struct qwen_batch *b, enum qwen_stage stage,
    void (*fn)(struct qwen_batch *b, void *arg, size_t t), void *arg,
    size_t numbers)
{
	size_t nt = (size_t)qwen_pool_threads(b->cpu->pool);
	struct token_job j = { b, stage, fn, arg, TOKENS, numbers };

	while (j.many > 1 && b->n < nt * j.many)
		j.many /= 2;
	qwen_pool_run(b->cpu->pool, do_tokens, &j, (b->n + j.many - 1) / j.many);
}
