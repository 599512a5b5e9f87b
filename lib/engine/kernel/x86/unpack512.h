/* SPDX-License-Identifier: ISC */
/*
 * unpack512.h - 16 rows of a group of 256 weights, turned so that they lie in
 * the 16 lanes: what panels of 32 rows are made with.
 *
 * The including file has defined struct panel, with min (pairs of int16), d and dmin,
 * indexed by group; weights and scales go to it through store_quad() and
 * store_scale(), which that file defines, with the format as a constant.
 */
#ifndef QWEN_KERNEL_UNPACK512_H
#define QWEN_KERNEL_UNPACK512_H

#include "engine/kernel/x86/base.h"

/* Dwords of four weights, of 16 rows: this quad of 32-block j of group g. */
PI void store_quad(uint32_t type, struct panel *p, size_t g, size_t j,
    int half, int quad, __m512i v);

/* Scale k of 32-block j of group g, 16 rows of dwords; k is 0 or 1. */
PI void store_scale(uint32_t type, struct panel *p, size_t g, size_t j,
    size_t k, int half, __m512i v);

/*
 * Turn 16 rows of 32 bytes into 8 registers: register i holds dword i of all
 * rows, row r in lane r.
 */
PI void
turn8(const unsigned char *const *p, __m512i *o)
{
	const __m512i lo = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
	const __m512i hi = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
	__m512i r[8], a[8], b[4], c[4];
	int i;

	UNROLL
	for (i = 0; i < 8; i++)
		r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(
		    _mm256_loadu_si256((const __m256i *)p[i])),
		    _mm256_loadu_si256((const __m256i *)p[i + 8]), 1);
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

/* The same for 16 rows of 16 bytes and 4 registers. */
PI void
turn4(const unsigned char *const *p, __m512i *o)
{
	__m512i r[4], a, b, c, d;
	int i;

	UNROLL
	for (i = 0; i < 4; i++) {
		r[i] = _mm512_castsi128_si512(_mm_loadu_si128(
		    (const __m128i *)p[i]));
		r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128(
		    (const __m128i *)p[i + 4]), 1);
		r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128(
		    (const __m128i *)p[i + 8]), 2);
		r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128(
		    (const __m128i *)p[i + 12]), 3);
	}
	a = _mm512_unpacklo_epi32(r[0], r[1]);
	b = _mm512_unpackhi_epi32(r[0], r[1]);
	c = _mm512_unpacklo_epi32(r[2], r[3]);
	d = _mm512_unpackhi_epi32(r[2], r[3]);
	o[0] = _mm512_unpacklo_epi64(a, c);
	o[1] = _mm512_unpackhi_epi64(a, c);
	o[2] = _mm512_unpacklo_epi64(b, d);
	o[3] = _mm512_unpackhi_epi64(b, d);
}

/* The f16 in the lower halves of 16 dwords. */
PI __m512
low_f16(__m512i v)
{
	return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

/* The f16 at the same place in 16 rows. */
PI __m512
load_d16(const unsigned char *const *p, size_t at)
{
	uint16_t h[16];
	int i;

	for (i = 0; i < 16; i++)
		memcpy(&h[i], p[i] + at, 2);
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
}

/* ---- Q4_K and Q5_K */

/* d, dmin, scales and minimums: the first 16 bytes of 16 rows' blocks. */
PI void
unpack_scales_k4(uint32_t type, const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m512i m6 = _mm512_set1_epi32(0x3f3f3f3f);
	const __m512i m4 = _mm512_set1_epi32(0x0f0f0f0f);
	const __m512i m2 = _mm512_set1_epi32(0x30303030);
	const __m512i byte = _mm512_set1_epi32(255);
	__m512i h[4], s[2], n[2];
	int i, j;

	turn4(p, h);
	_mm512_store_ps(to->d[g][0] + 16 * half, low_f16(h[0]));
	_mm512_store_ps(to->dmin[g] + 16 * half,
	    low_f16(_mm512_srli_epi32(h[0], 16)));
	s[0] = _mm512_and_si512(h[1], m6);
	n[0] = _mm512_and_si512(h[2], m6);
	s[1] = _mm512_or_si512(_mm512_and_si512(h[3], m4),
	    _mm512_and_si512(_mm512_srli_epi32(h[1], 2), m2));
	n[1] = _mm512_or_si512(
	    _mm512_and_si512(_mm512_srli_epi32(h[3], 4), m4),
	    _mm512_and_si512(_mm512_srli_epi32(h[2], 2), m2));
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++)
			store_scale(type, to, g, (size_t)(4 * i + j), 0, half,
			    _mm512_and_si512(_mm512_srli_epi32(s[i],
			    (unsigned)(8 * j)), byte));
		/* bytes 0 and 1, then 2 and 3, as a pair of int16 */
		for (j = 0; j < 2; j++) {
			__m512i v = _mm512_srli_epi32(n[i],
			    (unsigned)(16 * j));

			_mm512_store_si512(to->min[g][2 * i + j] + 16 * half,
			    _mm512_or_si512(_mm512_and_si512(v, byte),
			    _mm512_and_si512(_mm512_slli_epi32(v, 8),
			    _mm512_set1_epi32(0xff0000))));
		}
	}
}

PI void
unpack16_q4_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m512i m4 = _mm512_set1_epi8(15);
	const unsigned char *q[16];
	__m512i v[8];
	size_t j;
	int i;

	unpack_scales_k4(QT_Q4_K, p, to, g, half);
	for (j = 0; j < 4; j++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 16 + 32 * j;
		turn8(q, v);
		UNROLL
		for (i = 0; i < 8; i++) {
			store_quad(QT_Q4_K, to, g, 2 * j, half, i,
			    _mm512_and_si512(v[i], m4));
			store_quad(QT_Q4_K, to, g, 2 * j + 1, half, i,
			    _mm512_and_si512(_mm512_srli_epi16(v[i], 4), m4));
		}
	}
}

/* nibbles with the bits of h that the mask selects moved to bit 4 */
PI __m512i
with_bit(__m512i nibbles, __m512i h, unsigned bit)
{
	const __m512i m1 = _mm512_set1_epi8(1);

	return _mm512_or_si512(nibbles, _mm512_slli_epi16(
	    _mm512_and_si512(_mm512_srli_epi16(h, bit), m1), 4));
}

PI void
unpack16_q5_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m512i m4 = _mm512_set1_epi8(15);
	const unsigned char *q[16];
	__m512i v[8], h[8];
	size_t j;
	int i;

	unpack_scales_k4(QT_Q5_K, p, to, g, half);
	for (i = 0; i < 16; i++)
		q[i] = p[i] + 16;
	turn8(q, h);
	for (j = 0; j < 4; j++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 48 + 32 * j;
		turn8(q, v);
		UNROLL
		for (i = 0; i < 8; i++) {
			store_quad(QT_Q5_K, to, g, 2 * j, half, i,
			    with_bit(_mm512_and_si512(v[i], m4), h[i],
			    (unsigned)(2 * j)));
			store_quad(QT_Q5_K, to, g, 2 * j + 1, half, i,
			    with_bit(_mm512_and_si512(
			    _mm512_srli_epi16(v[i], 4), m4), h[i],
			    (unsigned)(2 * j + 1)));
		}
	}
}

/* ---- Q6_K */

/* Sixteen signed scales, through store_scale(). */
PI void
unpack_scales_q6_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const unsigned char *s[16];
	__m512i v[4];
	size_t i, j;

	for (i = 0; i < 16; i++)
		s[i] = p[i] + 192;
	turn4(s, v);
	for (i = 0; i < 4; i++)
		for (j = 0; j < 4; j++)
			store_scale(QT_Q6_K, to, g, 2 * i + j / 2, j % 2, half,
			    _mm512_srai_epi32(_mm512_slli_epi32(v[i],
			    (unsigned)(24 - 8 * j)), 24));
	_mm512_store_ps(to->d[g][0] + 16 * half, load_d16(p, 208));
}

PI void
unpack16_q6_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m512i m4 = _mm512_set1_epi8(15), m2 = _mm512_set1_epi8(0x30);
	const unsigned char *q[16];
	__m512i a[8], b[8], h[8];
	size_t k;
	int i;

	unpack_scales_q6_k(p, to, g, half);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 64 * k;
		turn8(q, a);
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 64 * k + 32;
		turn8(q, b);
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 128 + 32 * k;
		turn8(q, h);
#define PUT(j, nibbles, high)						\
	store_quad(QT_Q6_K, to, g, 4 * k + (j), half, i,		\
	    _mm512_or_si512(_mm512_and_si512(nibbles, m4),		\
	    _mm512_and_si512(high, m2)))
		UNROLL
		for (i = 0; i < 8; i++) {
			PUT(0, a[i], _mm512_slli_epi16(h[i], 4));
			PUT(1, b[i], _mm512_slli_epi16(h[i], 2));
			PUT(2, _mm512_srli_epi16(a[i], 4), h[i]);
			PUT(3, _mm512_srli_epi16(b[i], 4),
			    _mm512_srli_epi16(h[i], 2));
		}
#undef PUT
	}
}

/* ---- Q8_0 */

PI void
unpack16_q8_0(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const unsigned char *q[16];
	__m512i v[8];
	size_t j;
	int i;

	for (j = 0; j < 8; j++) {
		_mm512_store_ps(to->d[g][j] + 16 * half, load_d16(p, 34 * j));
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 34 * j + 2;
		turn8(q, v);
		UNROLL
		for (i = 0; i < 8; i++)
			store_quad(QT_Q8_0, to, g, j, half, i, v[i]);
	}
}

/* ---- all of them */

/*
 * 16 rows of one group into half a panel; p: their first bytes of it.  The type
 * is a constant where it is called.
 */
PI void
unpack16(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	switch (type) {
	case QT_Q4_K:
		unpack16_q4_k(p, to, g, half);
		break;
	case QT_Q5_K:
		unpack16_q5_k(p, to, g, half);
		break;
	case QT_Q6_K:
		unpack16_q6_k(p, to, g, half);
		break;
	default:
		unpack16_q8_0(p, to, g, half);
	}
}

#endif
