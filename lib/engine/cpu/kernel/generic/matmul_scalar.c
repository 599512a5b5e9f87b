/* SPDX-License-Identifier: ISC */
/*
 * matmul_scalar.c - y = Wx for every quantised format, plain C: the
 * definition of the arithmetic that the other variants reproduce.
 */
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

#include "engine/cpu/kernel/matmul_any.inc"

const struct qwen_kernel qwen_matmul_scalar_kernels[] = {
	QWEN_ENTRY(any, QWEN_ANY_TYPE, .op = QWEN_OP_MATMUL, QWEN_SCALAR)
	{ 0 }
};
