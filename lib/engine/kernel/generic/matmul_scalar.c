/* SPDX-License-Identifier: ISC */
/*
 * matmul_scalar.c - y = Wx for every quantised format, plain C: the
 * definition of the arithmetic that the other variants reproduce.
 */
#include <math.h>

#include "engine/kernel/kernel.h"

/* 256 weights under one d: two exact integers, two roundings. */
static float
dot_super(const struct qwen_unpacked *u, const struct qwen_q8 *x, int has_min,
    float acc)
{
	int32_t sum = 0, min = 0;
	int b, i;

	for (b = 0; b < 16; b++) {
		int32_t s = 0;

		for (i = 0; i < 16; i++)
			s += u->w[16 * b + i] * x->q[16 * b + i];
		sum += u->scale[b] * x->a[b / 2] * s;
		min += u->min[b] * x->asum16[b];
	}
	acc = fmaf(u->d * x->d, (float)sum, acc);
	if (has_min)
		acc = fmaf(-u->dmin * x->d, (float)min, acc);
	return acc;
}

/* Blocks of 32 with a d (and m) each, up to 8 of them. */
static float
dot_32(const struct qwen_unpacked *u, const struct qwen_q8 *x, size_t n_block,
    int has_min, float acc)
{
	float part = 0.0f, part_min = 0.0f;
	size_t b;
	int i;

	for (b = 0; b < n_block; b++) {
		int32_t s = 0;

		for (i = 0; i < 32; i++)
			s += u->w[32 * b + (size_t)i] *
			    x->q[32 * b + (size_t)i];
		part = fmaf(u->d32[b], (float)(x->a[b] * s), part);
		part_min = fmaf(u->m32[b], (float)x->asum[b], part_min);
	}
	acc = fmaf(x->d, part, acc);
	if (has_min)
		acc = fmaf(x->d, part_min, acc);
	return acc;
}

#include "engine/kernel/matmul_any.inc"

const struct qwen_kernel qwen_matmul_scalar_kernels[] = {
	QWEN_ENTRY(any, QWEN_ANY_TYPE, .op = QWEN_OP_MATMUL, QWEN_SCALAR)
	{ 0 }
};
