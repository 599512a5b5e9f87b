/* SPDX-License-Identifier: ISC */
/*
 * matmul_bf16_scalar.c - products in bf16, plain C: the definition that the other
 * variants reproduce.
 *
 * Weights and activations are bf16; their products are added in the order of
 * TDPBF16PS, the tile instruction of AMX, as the description of it in Intel's
 * Software Developer's Manual (volume 2, "Operation") has it: over 32 columns
 * one chain of fused multiply-adds for the even ones and one for the odd ones,
 * both from 0, ascending; then even + odd; then that is added to the sum.  The
 * Bochs emulator does the same.  (The operation printed in Intel's intrinsics
 * guide is another, with each product added to the sum itself; VDPBF16PS has
 * yet another order.)
 *
 * The instruction takes subnormal numbers for zero and makes none; there are
 * none: see QWEN_BF16_LEAST.
 */
#include <math.h>

#include "base/half.h"
#include "engine/cpu/kernel/kernel.h"

enum { DEPTH = 32 };		/* columns of a tile */

static float
add_tile(float sum, const float *w, const uint16_t *x)
{
	float even = 0.0f, odd = 0.0f;
	int k;

	for (k = 0; k < DEPTH; k += 2) {
		even = fmaf(w[k], qwen_bf16_f32(x[k]), even);
		odd = fmaf(w[k + 1], qwen_bf16_f32(x[k + 1]), odd);
	}
	return sum + (even + odd);
}

/* n weights as f32, rounded to bf16. */
static void
weights(const struct qwen_quant *q, const unsigned char *from, size_t n,
    float *to)
{
	size_t i;

	qwen_quant_values(q, from, n, to);
	for (i = 0; i < n; i++)
		to[i] = qwen_bf16_f32(qwen_weight_bf16(q, to[i]));
}

static void
product_any(const struct qwen_matmul *p)
{
	const struct qwen_quant *q = p->quant;
	float w[QWEN_GROUP];
	size_t r, t, i, k, n;

	for (r = p->r0; r < p->r1; r++) {
		const unsigned char *row = p->w + r * p->row_bytes;

		for (t = 0; t < p->n_tok; t++)
			p->y[t][r] = 0.0f;
		for (i = 0; i < p->n_in; i += n) {
			n = p->n_in - i < QWEN_GROUP ? p->n_in - i :
			    QWEN_GROUP;
			weights(q, row, n, w);
			row += n / q->block_len * q->block_bytes;
			for (t = 0; t < p->n_tok; t++) {
				const uint16_t *x = p->x[t];

				for (k = 0; k < n; k += DEPTH)
					p->y[t][r] = add_tile(p->y[t][r],
					    w + k, x + i + k);
			}
		}
	}
}

const struct qwen_kernel qwen_matmul_bf16_scalar_kernels[] = {
	QWEN_ENTRY(any, QWEN_ANY_TYPE, .op = QWEN_OP_MATMUL_BF16, QWEN_SCALAR)
	{ 0 }
};
