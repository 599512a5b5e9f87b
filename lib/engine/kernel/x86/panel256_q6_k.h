/* SPDX-License-Identifier: ISC */
/* panel256_q6_k.h - panels of Q6_K in 256-bit registers. */
#define BLOCK_BYTES 210
#define MOST 2			/* 4 * 63 * 127 = 32004 */
#include "engine/kernel/x86/panel256.h"
#include "engine/kernel/x86/unpack256_q6_k.h"

/* Weights are 0 .. 63 in the panel: 32 times scale times sum comes off. */
PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    int many, __m256 (*acc)[2], struct ahead *ahead)
{
	__m256i sum[MAX_TILE][2];
	int j, t, h;

	(void)many;
	group_sums(p, g, x, 4, MOST, n, sum, ahead);
	UNROLL
	for (t = 0; t < n; t++) {
		__m256 scale = _mm256_set1_ps(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++) {
			__m256i off = _mm256_setzero_si256();

			UNROLL
			for (j = 0; j < 8; j++)
				off = add_pairs(off,
				    load8(p->min[g][j] + 8 * h),
				    broadcast(x[t]->asum16 + 2 * j));
			off = _mm256_sub_epi32(sum[t][h],
			    _mm256_slli_epi32(off, 5));
			acc[t][h] = _mm256_fmadd_ps(_mm256_mul_ps(
			    _mm256_load_ps(p->d[g][0] + 8 * h), scale),
			    _mm256_cvtepi32_ps(off), acc[t][h]);
		}
	}
}
