/* SPDX-License-Identifier: ISC */
/* matmul_neon.c - y = Wx, x in 8 bits, NEON. */
#include <math.h>

#include "engine/kernel/arm/rows4.h"

/*
 * Formats without a kernel of their own: weights unpacked once by the format's
 * plain code, then multiplied with every token.
 */

/* Four int32 that add up to the products of 16 from i. */
AI int32x4_t
part(const struct qwen_unpacked *u, const struct qwen_q8 *x, size_t i)
{
	return dot16(vdupq_n_s32(0), vld1q_s8(u->w + i), vld1q_s8(x->q + i));
}

static float
dot_super(const struct qwen_unpacked *u, const struct qwen_q8 *x, int has_min,
    float acc)
{
	int32x4_t sum = vdupq_n_s32(0), min = vdupq_n_s32(0);
	size_t b;

	for (b = 0; b < 16; b++)
		sum = vmlaq_n_s32(sum, part(u, x, 16 * b),
		    u->scale[b] * x->a[b / 2]);
	acc = fmaf(u->d * x->d, (float)vaddvq_s32(sum), acc);
	if (!has_min)
		return acc;
	for (b = 0; b < 16; b += 4)
		min = vmlal_s16(min, vld1_s16(u->min + b),
		    vld1_s16(x->asum16 + b));
	return fmaf(-u->dmin * x->d, (float)vaddvq_s32(min), acc);
}

static float
dot_32(const struct qwen_unpacked *u, const struct qwen_q8 *x, size_t n_block,
    int has_min, float acc)
{
	float sum = 0.0f, min = 0.0f;
	size_t b;

	for (b = 0; b < n_block; b++) {
		int32_t s = vaddvq_s32(vaddq_s32(part(u, x, 32 * b),
		    part(u, x, 32 * b + 16)));

		sum = fmaf(u->d32[b], (float)(x->a[b] * s), sum);
		min = fmaf(u->m32[b], (float)x->asum[b], min);
	}
	acc = fmaf(x->d, sum, acc);
	if (has_min)
		acc = fmaf(x->d, min, acc);
	return acc;
}

#include "engine/kernel/matmul_any.inc"

const struct qwen_kernel qwen_matmul_neon_kernels[] = {
	ROW_KERNELS(QWEN_NEON)
	QWEN_ENTRY(any, QWEN_ANY_TYPE, .op = QWEN_OP_MATMUL, QWEN_NEON)
	{ 0 }
};
