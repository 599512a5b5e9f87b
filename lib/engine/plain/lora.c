/* SPDX-License-Identifier: ISC */
/* lora.c - what adapters add: s B (A x), or to an embedding s B a. */
#include "engine/net/lora.h"
#include "engine/plain/plain.h"

/* Adds the product of rows r .. r + n - 1 of B, of matrix e, with low to y. */
static void
add_b(const struct qwen_lora *l, size_t e, size_t r, const float *low, float *y,
    size_t n)
{
	const float *b;
	size_t i, k;

	for (i = 0; i < n; i++) {
		b = l->b + e * l->b_expert + qwen_low_at(l->rank, r + i);
		for (k = 0; k < l->rank; k++)
			y[i] = fmaf(low[k], b[k * QWEN_LOW_ROWS], y[i]);
	}
}

void
qwen_plain_lora(struct qwen_plain_work *w, const struct qwen_weight *m,
    size_t e, size_t n)
{
	const struct qwen_lora *l;
	const unsigned char *a;
	size_t i, k, t;

	for (i = 0; i < m->lora->n; i++) {
		l = &m->lora->v[i];
		a = qwen_plain_matrix(&l->a, e);
		for (k = 0; k < l->rank; k++, a += l->a.row_bytes) {
			qwen_quant_values(l->a.quant, a, m->n_in, w->row);
			for (t = 0; t < n; t++)
				w->low[t * l->rank + k] = l->scale *
				    qwen_plain_dot(w->row, w->from[t], m->n_in);
		}
		for (t = 0; t < n; t++)
			add_b(l, e, m->lora_at, w->low + t * l->rank, w->to[t],
			    m->n_out);
	}
}

void
qwen_plain_embedding(struct qwen_plain_work *w, const struct qwen_weight *m,
    size_t id, float *x)
{
	const struct qwen_lora *l;
	size_t i, k;

	qwen_quant_values(m->quant, m->data + id * m->row_bytes, m->n_in, x);
	for (i = 0; m->lora != NULL && i < m->lora->n; i++) {
		l = &m->lora->v[i];
		qwen_quant_values(l->a.quant, l->a.data + id * l->a.row_bytes,
		    l->rank, w->low);
		for (k = 0; k < l->rank; k++)
			w->low[k] *= l->scale;
		add_b(l, 0, 0, w->low, x, m->n_in);
	}
}
