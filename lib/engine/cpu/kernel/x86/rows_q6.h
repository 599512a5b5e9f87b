/* SPDX-License-Identifier: ISC */
/*
 * rows_q6.h - four rows by up to four tokens of Q6_K, AVX-512: a 128-bit lane
 * has 16 weights, which share a scale.
 */
#ifndef QWEN_X86_ROWS_Q6_H
#define QWEN_X86_ROWS_Q6_H

#include "engine/cpu/kernel/x86/rows_two.h"

/*
 * Multiplies two rows with a token; scale has scales times factors.  The bias
 * is subtracted.
 */
KERNEL_INLINE __m512i
two_rows_q6(const struct group *u, const struct qwen_q8 *x, __m512i scale)
{
	const __m256i by = load32(x->asum16);
	__m256i a = _mm256_madd_epi16(_mm256_slli_epi16(u[0].scale, 5), by);
	__m256i b = _mm256_madd_epi16(_mm256_slli_epi16(u[1].scale, 5), by);
	__m512i q[4], at[4];
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		q[k] = _mm512_loadu_si512(x->q + 64 * k);
		at[k] = lane_places(4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 3, 16);
	}
	return _mm512_sub_epi32(dot_two(u[0].w, u[1].w, q, scale, at),
	    _mm512_zextsi256_si512(rows_beside(a, b)));
}

/* plain: activations have no factors, so all tokens share the scales. */
KERNEL_INLINE void
sums_q6(const unsigned char **w, const struct qwen_q8 **x, size_t n, int nt,
    int plain, const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = qwen_traits[QT_Q6_K].bytes;
	size_t b, i;
	int j;

	for (b = 0; b < n; b++) {
		__m128 d = load_d4(QT_Q6_K, (const unsigned char *const *)w,
		    0);
		__m512i sum[4];

		prefetch(ahead + 4 * b * bytes, 4 * bytes);
		UNROLL
		for (i = 0; i < 4; i += 2) {
			struct group u[2];
			__m512i scale, v;

			decode(QT_Q6_K, w[i], &u[0]);
			decode(QT_Q6_K, w[i + 1], &u[1]);
			scale = join(u[0].scale, u[1].scale);
			for (j = 0; j < nt; j++) {
				v = two_rows_q6(u, x[j] + b, plain ? scale :
				    _mm512_mullo_epi16(scale, in_halves(twice(
				    load16(x[j][b].a)))));
				sum[j] = i == 0 ? v : join_two(sum[j], v);
			}
			w[i] += bytes;
			w[i + 1] += bytes;
		}
		for (j = 0; j < nt; j++)
			acc[j] = _mm_fmadd_ps(_mm_mul_ps(d,
			    _mm_set1_ps(x[j][b].d)), _mm_cvtepi32_ps(
			    add_halves(in_256(sum[j]))), acc[j]);
	}
}

#endif
