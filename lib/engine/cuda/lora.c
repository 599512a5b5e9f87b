/* SPDX-License-Identifier: ISC */
/* lora.c - adapters (LoRA) on the card. */
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/kernel/lora.h"
#include "engine/cuda/lora.h"
#include "engine/net/lora.h"

_Static_assert((int)DEV_LOW_ROWS == QWEN_LOW_ROWS, "layout of B");

/* ------------------------------------------------------------------ weights */

int
qwen_cuda_can_lora(const struct qwen_weight *w)
{
	size_t i;

	for (i = 0; w->lora != NULL && i < w->lora->n; i++) {
		if (!qwen_cuda_can_multiply(&w->lora->v[i].a))
			return 0;
	}
	return 1;
}

/* Returns the numbers of a B, of all matrices. */
static size_t
b_size(const struct qwen_lora *l, size_t n_matrix)
{
	return qwen_low_size(l->rank, l->n_out) *
	    (l->b_expert > 0 ? n_matrix : 1);
}

uint64_t
qwen_cuda_lora_bytes(const struct qwen_weight *w, size_t n_matrix)
{
	const struct qwen_lora *l;
	uint64_t sum = 0;
	size_t i;

	for (i = 0; w->lora != NULL && i < w->lora->n; i++) {
		l = &w->lora->v[i];
		sum += qwen_cuda_weight_bytes(&l->a, n_matrix) + (n_matrix +
		    b_size(l, n_matrix)) * sizeof(float);
	}
	return sum;
}

/* Copies A with its factor for each matrix, and B. */
static int
put_low(struct qwen_cuda *c, struct qwen_cuda_low *out,
    const struct qwen_lora *l, size_t n_matrix, struct qwen_err *err)
{
	float *scale = qwen_alloc(n_matrix, sizeof *scale);
	size_t e;
	int rc;

	if (scale == NULL)
		return qwen_oom(err);
	for (e = 0; e < n_matrix; e++)
		scale[e] = l->scale;
	out->rank = (uint32_t)l->rank;
	out->b_expert = l->b_expert;
	rc = qwen_cuda_weight_put(c, &out->a, &l->a, n_matrix, err) < 0 ||
	    qwen_cuda_vector(c, &out->a.scale, scale, n_matrix, err) < 0 ||
	    qwen_cuda_vector(c, &out->b, l->b, b_size(l, n_matrix), err) < 0 ?
	    -1 : 0;
	free(scale);
	return rc;
}

int
qwen_cuda_lora_put(struct qwen_cuda *c, struct qwen_cuda_weight *out,
    const struct qwen_weight *w, size_t n_matrix, struct qwen_err *err)
{
	const struct qwen_lora_set *set = w->lora;
	struct qwen_cuda_lora *l;

	out->lora = NULL;
	out->lora_at = (uint32_t)w->lora_at;
	if (set == NULL)
		return 0;
	for (l = c->lora; l != NULL && l->of != set; l = l->next)
		;
	if (l == NULL) {
		l = qwen_alloc(1, sizeof *l + set->n * sizeof l->v[0]);
		if (l == NULL)
			return qwen_oom(err);
		l->of = set;
		l->next = c->lora;
		c->lora = l;
		for (; l->n < set->n; l->n++) {
			if (put_low(c, &l->v[l->n], &set->v[l->n], n_matrix,
			    err) < 0)
				return -1;
		}
	}
	out->lora = l;
	return 0;
}

void
qwen_cuda_lora_free(struct qwen_cuda *c)
{
	struct qwen_cuda_lora *next;

	for (; c->lora != NULL; c->lora = next) {
		next = c->lora->next;
		free(c->lora);
	}
}

/* ----------------------------------------------------------------- products */

/* Adds the products of B with LOW. */
static void
add_low(struct qwen_cuda_work *w, const struct qwen_cuda_weight *m,
    const struct qwen_cuda_low *l, const struct qwen_cuda_pairs *pairs,
    size_t n, cu_ptr y, size_t stride)
{
	struct dev_lora a = { .b = QWEN_CUDA_P(l->b),
	    .low = QWEN_CUDA_P(w->array[QWEN_CUDA_LOW]),
	    .y = QWEN_CUDA_P(y),
	    .at = pairs != NULL ? QWEN_CUDA_P(pairs->at) : NULL,
	    .first = pairs != NULL ? QWEN_CUDA_P(pairs->first) : NULL,
	    .b_expert = l->b_expert, .y_stride = stride, .rank = l->rank,
	    .r = m->lora_at, .n_out = m->n_out, .n_matrix = m->n_matrix };

	qwen_cuda_run(w->c->card, &(struct qwen_cuda_launch){
	    .module = "lora", .name = "add_low", .x = (unsigned)n,
	    .y = (m->n_out + DEV_LOW_ROWS - 1) / DEV_LOW_ROWS,
	    .threads = DEV_LOW_ROWS }, &a, sizeof a);
}

void
qwen_cuda_lora_add(struct qwen_cuda_work *w, const struct qwen_cuda_weight *m,
    const struct qwen_cuda_rows *x, const struct qwen_cuda_pairs *pairs,
    cu_ptr y, size_t stride)
{
	size_t i, n = pairs != NULL ? pairs->n_pair : x->n;
	cu_ptr low = w->array[QWEN_CUDA_LOW];
	const struct qwen_cuda_low *l;

	for (i = 0; i < m->lora->n && n > 0; i++) {
		l = &m->lora->v[i];
		if (pairs != NULL)
			qwen_cuda_multiply_pairs(w, &l->a, x, pairs, low,
			    l->rank);
		else
			qwen_cuda_multiply(w, &l->a, x, low, l->rank);
		add_low(w, m, l, pairs, n, y, stride);
	}
}

/* --------------------------------------------------------------- embeddings */

void
qwen_cuda_embedding(const struct qwen_weight *m, size_t id, float *x)
{
	const struct qwen_lora *l;
	const unsigned char *from;
	size_t i, k, r;
	float a;

	qwen_quant_values(m->quant, m->data + id * m->row_bytes, m->n_in, x);
	for (i = 0; m->lora != NULL && i < m->lora->n; i++) {
		l = &m->lora->v[i];
		from = l->a.data + id * l->a.row_bytes;
		for (k = 0; k < l->rank; k++) {
			qwen_quant_values(l->a.quant, from +
			    k * l->a.quant->block_bytes, 1, &a);
			a *= l->scale;
			for (r = 0; r < l->n_out; r++)
				x[r] = fmaf(a, l->b[qwen_low_at(l->rank, r) +
				    k * QWEN_LOW_ROWS], x[r]);
		}
	}
}
