/* SPDX-License-Identifier: ISC */
/*
 * rows_two.h - two rows of 256 weights at a time, AVX-512: for rows_k45.h and
 * rows_q6.h.
 */
#ifndef QWEN_X86_ROWS_TWO_H
#define QWEN_X86_ROWS_TWO_H

#include "engine/cpu/kernel/x86/rows4.h"

/*
 * Multiplies two rows u and v of 256 weights by activations q.  Sums of four
 * products must fit in 16 bits.  The sums of both rows are packed into one
 * vector, which VPDPWSSD multiplies with the scales of both. at[k] has, for 64
 * columns, the scale indices of each 128-bit lane: u's index four times, then
 * v's.  In the result, two dwords of each lane are sums of u, two of v.
 */
KERNEL_INLINE __m512i
dot_two(const __m512i *u, const __m512i *v, const __m512i *q, __m512i scale,
    const __m512i *at)
{
	const __m512i zero = _mm512_setzero_si512();
	__m512i sum[2] = { zero, zero };
	int k;

	UNROLL
	for (k = 0; k < 4; k++)
		sum[k % 2] = _mm512_dpwssd_epi32(sum[k % 2],
		    _mm512_packs_epi32(_mm512_dpbusd_epi32(zero, u[k], q[k]),
		    _mm512_dpbusd_epi32(zero, v[k], q[k])),
		    _mm512_permutexvar_epi16(at[k], scale));
	return _mm512_add_epi32(sum[0], sum[1]);
}

/*
 * Returns indices for dot_two: those of u per lane, and v's, which are
 * `further' more.
 */
KERNEL_INLINE __m512i
lane_places(int a, int b, int c, int d, int further)
{
	const long long each = 0x0001000100010001;

	return _mm512_setr_epi64(a * each, (a + further) * each, b * each,
	    (b + further) * each, c * each, (c + further) * each, d * each,
	    (d + further) * each);
}

/*
 * Joins eight dwords of each row, whose totals are the sums, in the layout of
 * dot_two().
 */
KERNEL_INLINE __m256i
rows_beside(__m256i u, __m256i v)
{
	return _mm256_add_epi32(_mm256_unpacklo_epi64(u, v),
	    _mm256_unpackhi_epi64(u, v));
}

/* Joins two results of dot_two(): each lane has the four sums. */
KERNEL_INLINE __m512i
join_two(__m512i x, __m512i y)
{
	__m512 a = _mm512_castsi512_ps(x), b = _mm512_castsi512_ps(y);

	return _mm512_add_epi32(
	    _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)),
	    _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd)));
}

#endif
