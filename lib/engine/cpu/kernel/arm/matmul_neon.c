/* SPDX-License-Identifier: ISC */
/* matmul_neon.c - y = Wx, x in 8 bits, NEON. */
#include "engine/cpu/kernel/arm/rows4.h"

/*
 * Formats without a kernel of their own: weights unpacked once by the format's
 * plain code, then multiplied with every token.
 */

static void
sums16(int32_t *s, const int8_t *w, const int8_t *q, size_t n)
{
	size_t b;

	for (b = 0; b < n / 16; b++)
		s[b] = vaddvq_s32(dot16(vdupq_n_s32(0), vld1q_s8(w + 16 * b),
		    vld1q_s8(q + 16 * b)));
}

#include "engine/cpu/kernel/matmul_any.inc"

const struct qwen_kernel qwen_matmul_neon_kernels[] = {
	ROW_KERNELS(QWEN_NEON)
	QWEN_ENTRY(any, QWEN_ANY_TYPE, .op = QWEN_OP_MATMUL, QWEN_NEON)
	{ 0 }
};
