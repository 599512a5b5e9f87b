/* SPDX-License-Identifier: ISC */
/*
 * turn.h - transposes dwords of rows, so that the dwords of a column are
 * adjacent.
 */
#ifndef QWEN_KERNEL_TURN_H
#define QWEN_KERNEL_TURN_H

#include "engine/cpu/kernel/x86/bits.h"

/* Loads 16 bytes of every fourth row, one row per 128-bit lane. */
KERNEL_INLINE wide_i
each_fourth(const unsigned char *const *p, size_t at)
{
#ifdef __AVX512F__
	__m512i v = _mm512_castsi128_si512(load16(p[0] + at));

	v = _mm512_inserti32x4(v, load16(p[4] + at), 1);
	v = _mm512_inserti32x4(v, load16(p[8] + at), 2);
	return _mm512_inserti32x4(v, load16(p[12] + at), 3);
#else
	return _mm256_inserti128_si256(_mm256_castsi128_si256(
	    load16(p[0] + at)), load16(p[4] + at), 1);
#endif
}

/*
 * Transposes 16 bytes at this offset of the rows into 4 registers: register i
 * holds dword i of all rows, row r in lane r.
 */
KERNEL_INLINE void
transpose4(const unsigned char *const *p, size_t at, wide_i *o)
{
	wide_i r[4], a, b, c, d;
	int i;

	UNROLL
	for (i = 0; i < 4; i++)
		r[i] = each_fourth(p + i, at);
	a = MM(unpacklo_epi32)(r[0], r[1]);
	b = MM(unpackhi_epi32)(r[0], r[1]);
	c = MM(unpacklo_epi32)(r[2], r[3]);
	d = MM(unpackhi_epi32)(r[2], r[3]);
	o[0] = MM(unpacklo_epi64)(a, c);
	o[1] = MM(unpackhi_epi64)(a, c);
	o[2] = MM(unpacklo_epi64)(b, d);
	o[3] = MM(unpackhi_epi64)(b, d);
}

/* Number of dwords of a row that are transposed at once. */
#ifdef __AVX512F__
#define TURN 8
/* The same for 32 bytes and 8 registers. */
KERNEL_INLINE void
transpose(const unsigned char *const *p, size_t at, __m512i *o)
{
	const __m512i lo = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
	const __m512i hi = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
	__m512i r[8], a[8], b[4], c[4];
	int i;

	UNROLL
	for (i = 0; i < 8; i++)
		r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(
		    _mm256_loadu_si256((const __m256i *)(p[i] + at))),
		    _mm256_loadu_si256((const __m256i *)(p[i + 8] + at)), 1);
	UNROLL
	for (i = 0; i < 4; i++) {
		a[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
		a[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
	}
	UNROLL
	for (i = 0; i < 2; i++) {
		b[2 * i] = _mm512_unpacklo_epi64(a[i], a[2 + i]);
		b[2 * i + 1] = _mm512_unpackhi_epi64(a[i], a[2 + i]);
		c[2 * i] = _mm512_unpacklo_epi64(a[4 + i], a[6 + i]);
		c[2 * i + 1] = _mm512_unpackhi_epi64(a[4 + i], a[6 + i]);
	}
	UNROLL
	for (i = 0; i < 4; i++) {
		o[i] = _mm512_permutex2var_epi64(b[i], lo, c[i]);
		o[i + 4] = _mm512_permutex2var_epi64(b[i], hi, c[i]);
	}
}
#else
#define TURN 4
#define transpose transpose4
#endif

#endif
