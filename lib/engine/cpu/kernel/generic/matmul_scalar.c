/* SPDX-License-Identifier: ISC */
/*
 * matmul_scalar.c - y = Wx for every quantised format, plain C: the
 * definition of the arithmetic that the other variants reproduce.
 */
#include <math.h>

#include "engine/cpu/kernel/kernel.h"

static void
sums16(int32_t *s, const int8_t *w, const int8_t *q, size_t n)
{
	size_t b, i;

	for (b = 0; b < n / 16; b++) {
		s[b] = 0;
		for (i = 16 * b; i < 16 * b + 16; i++)
			s[b] += w[i] * q[i];
	}
}

/* 256 weights under one d: two exact integers, two roundings. */
static float
fold_super(const struct qwen_unpacked *u, const struct qwen_q8 *x,
    const int32_t *s16, int has_min, float acc)
{
	int32_t sum = 0, min = 0;
	int b;

	for (b = 0; b < 16; b++) {
		sum += u->scale[b] * x->a[b / 2] * s16[b];
		min += u->min[b] * x->asum16[b];
	}
	acc = fmaf(u->d[0] * x->d, (float)sum, acc);
	if (has_min)
		acc = fmaf(-u->m[0] * x->d, (float)min, acc);
	return acc;
}

/* n weights, span of them under a d (and m) each: two integers for each d. */
static float
fold_blocks(const struct qwen_unpacked *u, const struct qwen_q8 *x,
    const int32_t *s16, size_t n, const struct qwen_quant *q, float acc)
{
	float part = 0.0f, part_min = 0.0f;
	size_t k, b = 0;

	for (k = 0; k < n / q->span; k++) {
		int32_t s = 0, min = 0;

		for (; b < (k + 1) * (q->span / 16); b++) {
			s += x->a[b / 2] * s16[b];
			min += x->asum16[b];
		}
		part = fmaf(u->d[k], (float)s, part);
		part_min = fmaf(u->m[k], (float)min, part_min);
	}
	acc = fmaf(x->d, part, acc);
	if (q->has_min)
		acc = fmaf(x->d, part_min, acc);
	return acc;
}

static void
product_any(const struct qwen_matmul *p)
{
	const struct qwen_quant *q = p->quant;
	struct qwen_unpacked u;
	int32_t s16[16];
	size_t r, t, i, n;

	for (r = p->r0; r < p->r1; r++) {
		const unsigned char *w = p->w + r * p->row_bytes;

		for (t = 0; t < p->n_tok; t++)
			p->y[t][r] = 0.0f;
		for (i = 0; i < p->n_in; i += n) {
			n = p->n_in - i < QWEN_GROUP ? p->n_in - i :
			    QWEN_GROUP;
			qwen_quant_unpack(q, w, n, &u);
			w += n / q->block_len * q->block_bytes;
			for (t = 0; t < p->n_tok; t++) {
				const struct qwen_q8 *x = p->x[t];
				float *y = p->y[t] + r;

				x += i / QWEN_GROUP;
				sums16(s16, u.w, x->q, n);
				*y = q->kind == QWEN_QUANT_SUPER ?
				    fold_super(&u, x, s16, q->has_min, *y) :
				    fold_blocks(&u, x, s16, n, q, *y);
			}
		}
	}
}

const struct qwen_kernel qwen_matmul_scalar_kernels[] = {
	QWEN_ENTRY(any, QWEN_ANY_TYPE, .op = QWEN_OP_MATMUL, QWEN_SCALAR)
	{ 0 }
};
