/* SPDX-License-Identifier: ISC */
/*
 * product.c - products of a matrix with many rows, by the kernels that language
 * models have for float weights.
 *
 * A thread takes some rows of the matrix, and all rows of activations.  Q8_0
 * becomes f32 first, which is exact.
 */
#include <string.h>

#include "base/half.h"
#include "vision/encoder.h"

enum {
	OUT = 64,	/* rows of a matrix that a thread takes */
	TOKENS = 192,	/* rows of activations that stay in the cache */
};

struct product {
	const struct qwen_vision_matrix	*m;
	const float			*x;
	size_t				 x_step;
	float				*y;
	size_t				 y_step, n;
};

/* Returns the largest n_in of a matrix in Q8_0. */
static size_t
widest(const struct qwen_vision *v)
{
	size_t d = v->info.n_embd_vision, n = PER_TOKEN * d;

	return v->info.n_ff > n ? v->info.n_ff : n;
}

size_t
qwen_vision_product_own(const struct qwen_vision *v)
{
	return OUT * widest(v);
}

/* Writes rows of Q8_0 as f32. */
static void
widen(const struct qwen_vision_matrix *m, size_t r, size_t n, float *to)
{
	const unsigned char *p = m->data + r * m->row_bytes;
	size_t i, k;
	float d;

	for (i = 0; i < n * m->n_in / 32; i++, p += 34, to += 32) {
		d = qwen_f16_f32((uint16_t)(p[0] | p[1] << 8));
		for (k = 0; k < 32; k++)
			to[k] = d * (float)(int8_t)p[2 + k];
	}
}

static void
do_rows(struct qwen_vision_work *w, size_t item, float *own)
{
	const struct product *p = w->arg;
	const struct qwen_vision_matrix *m = p->m;
	const struct qwen_kernels *k = &w->v->kernels;
	const void *x[TOKENS];
	float *y[TOKENS];
	size_t r = item * OUT, n = m->n_out - r < OUT ? m->n_out - r : OUT, t, i;
	struct qwen_matmul mm = { .w = m->data + r * m->row_bytes,
	    .row_bytes = m->row_bytes, .n_in = m->n_in, .quant = m->quant,
	    .x = x, .y = y, .r1 = n };

	if (m->quant->type == QT_Q8_0) {
		widen(m, r, n, own);
		mm.w = (const unsigned char *)own;
		mm.row_bytes = m->n_in * sizeof *own;
		mm.quant = qwen_quant_find(QT_F32);
	}
	for (t = 0; t < p->n; t += mm.n_tok) {
		mm.n_tok = p->n - t < TOKENS ? p->n - t : TOKENS;
		for (i = 0; i < mm.n_tok; i++) {
			x[i] = p->x + (t + i) * p->x_step;
			y[i] = p->y + (t + i) * p->y_step + r;
		}
		qwen_multiply(k->matmul_f32[mm.quant->type], NULL, &mm);
		for (i = 0; i < mm.n_tok; i++)
			qwen_vision_vec(w->v)->axpy(y[i], 1.0f, m->bias + r, n);
	}
}

void
qwen_vision_product(struct qwen_vision_work *w,
    const struct qwen_vision_matrix *m, const float *x, size_t x_step,
    float *y, size_t y_step, size_t n)
{
	struct product p = { m, x, x_step, y, y_step, n };

	w->arg = &p;
	qwen_vision_run(w, do_rows, (m->n_out + OUT - 1) / OUT);
}
