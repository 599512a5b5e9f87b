/* SPDX-License-Identifier: ISC */
/*
 * panel256_k4.h - Q4_K and Q5_K in 256-bit panels: the fold over blocks of 32.
 * The including file has defined MOST: quads whose products add up in 16 bits.
 */
#include "engine/kernel/x86/panel256.h"

PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    int many, __m256 (*acc)[2], struct ahead *ahead)
{
	__m256i sum[MAX_TILE][2];
	int j, t, h;

	(void)many;
	group_sums(p, g, x, 8, MOST, n, sum, ahead);
	UNROLL
	for (t = 0; t < n; t++) {
		__m256 scale = _mm256_set1_ps(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++) {
			__m256i min = _mm256_setzero_si256();

			UNROLL
			for (j = 0; j < 4; j++)
				min = add_pairs(min,
				    load8(p->min[g][j] + 8 * h),
				    broadcast(x[t]->asum + 2 * j));
			acc[t][h] = _mm256_fmadd_ps(_mm256_mul_ps(
			    _mm256_load_ps(p->d[g][0] + 8 * h), scale),
			    _mm256_cvtepi32_ps(sum[t][h]), acc[t][h]);
			acc[t][h] = _mm256_fnmadd_ps(_mm256_mul_ps(
			    _mm256_load_ps(p->dmin[g] + 8 * h), scale),
			    _mm256_cvtepi32_ps(min), acc[t][h]);
		}
	}
}
