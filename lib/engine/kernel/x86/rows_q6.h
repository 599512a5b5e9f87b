/* SPDX-License-Identifier: ISC */
/*
 * rows_q6.h - four rows by up to four tokens of Q6_K, AVX-512: two rows at a
 * time.
 *
 * Sums of four products fit 16 bits (63 * 127 * 4 at most), so those of two rows
 * become one vector, which VPDPWSSD multiplies with the scales of both.  16
 * weights under a scale are a 128-bit lane; two dwords of it are then the sums of
 * one row, two those of the other.
 */
#ifndef QWEN_X86_ROWS_Q6_H
#define QWEN_X86_ROWS_Q6_H

#include "engine/kernel/x86/rows512.h"

/* Two rows of a token, with scales times factors. */
PI __m512i
dot_two_q6(const struct group *u, const struct qwen_q8 *x, __m512i scale)
{
	const __m512i zero = _mm512_setzero_si512();
	const long long each = 0x0001000100010001;
	/* of lane i, scale i of the one row and of the other */
	const __m512i at = _mm512_setr_epi64(0, 16 * each, each, 17 * each,
	    2 * each, 18 * each, 3 * each, 19 * each);
	const __m256i by = load32(x->asum16);
	__m256i a = _mm256_madd_epi16(_mm256_slli_epi16(u[0].scale, 5), by);
	__m256i b = _mm256_madd_epi16(_mm256_slli_epi16(u[1].scale, 5), by);
	__m512i sum = zero;
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		__m512i q = _mm512_loadu_si512(x->q + 64 * k);

		sum = _mm512_dpwssd_epi32(sum, _mm512_packs_epi32(
		    _mm512_dpbusd_epi32(zero, u[0].w[k], q),
		    _mm512_dpbusd_epi32(zero, u[1].w[k], q)),
		    _mm512_permutexvar_epi16(_mm512_add_epi16(at,
		    _mm512_set1_epi16((short)(4 * k))), scale));
	}
	/* what the bias of 32 makes of them */
	return _mm512_sub_epi32(sum, _mm512_zextsi256_si512(_mm256_add_epi32(
	    _mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b))));
}

/* plain: activations have no factors, so that tokens share the scales. */
PI void
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
				v = dot_two_q6(u, x[j] + b, plain ? scale :
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
			    add_lanes(sum[j])), acc[j]);
	}
}

#endif
