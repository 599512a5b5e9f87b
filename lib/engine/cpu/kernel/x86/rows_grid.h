/* SPDX-License-Identifier: ISC */
/*
 * rows_grid.h - rows of grid weights: like sums_super() of rows4.h, but the
 * indices and signs of four blocks are computed before any entry is looked up.
 * Lookups wait for indices just stored, and one block alone fills the
 * processor's window.
 */
#ifndef QWEN_X86_ROWS_GRID_H
#define QWEN_X86_ROWS_GRID_H

#include "engine/cpu/kernel/x86/rows4.h"

/*
 * Computes, per token, eight int32 whose total is a block's sum.  Multiplies
 * each register of weights as soon as they are looked up, since the weights of a
 * block do not fit in registers of 256 bits.
 */
KERNEL_INLINE void
grid_dot(uint32_t type, const struct grid *g,
    const struct qwen_q8 *const *x, int nt, __m256i *sum)
{
	__m256i scale[4];
	wide_i v[4];
	int j, k;

	UNROLL
	for (j = 0; j < nt; j++) {
		scale[j] = _mm256_mullo_epi16(g->scale, twice(load16(x[j]->a)));
		v[j] = set8(0);
	}
	UNROLL
	for (k = 0; k < GROUP_REGS; k++) {
		wide_i u = grid_register(type, g, k);

		UNROLL
		for (j = 0; j < nt; j++) {
			v[j] = add_products(v[j], MM(maddubs_epi16)(u,
			    load_wide(x[j]->q + WIDE * k)),
			    scales_at(scale[j], k));
			IN_ORDER(v[j]);
		}
	}
	UNROLL
	for (j = 0; j < nt; j++)
		sum[j] = _mm256_sub_epi32(in_256(v[j]),
		    bias_sum(type, g->scale, x[j]));
}

KERNEL_INLINE void
sums_grid(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = qwen_traits[type].bytes, n = n_in / QWEN_GROUP;
	const struct qwen_q8 *y[4];
	__m256i s[4], sum[4][4];
	struct grid g[4];
	size_t b, i;
	int j;

	for (i = 0; i < 4; i++)
		grid_open(type, w[i], &g[i]);
	for (b = 0; b < n; b++) {
		__m128 d = load_d4(type, (const unsigned char *const *)w, 0);

		for (j = 0; j < nt; j++)
			y[j] = x[j] + b;
		prefetch(ahead + 4 * b * bytes, 4 * bytes);
		for (i = 0; i < 4; i++) {
			grid_dot(type, &g[i], y, nt, s);
			for (j = 0; j < nt; j++)
				sum[j][i] = s[j];
			if (b + 1 < n)
				w[i] += bytes;
			grid_open(type, w[i], &g[i]);
		}
		for (j = 0; j < nt; j++)
			acc[j] = add_sums(acc[j], _mm_mul_ps(d,
			    _mm_set1_ps(y[j]->d)), sum[j]);
	}
}

#endif
