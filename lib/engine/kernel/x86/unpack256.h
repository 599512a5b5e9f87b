/* SPDX-License-Identifier: ISC */
/*
 * unpack256.h - 8 rows of a group of 256 weights, turned so that they lie in
 * the 8 lanes: what panels of 16 rows are made with.
 *
 * The including file has defined struct panel, with scale and min (pairs of
 * int16), d and dmin, indexed by group; weights go to it through store_quad(),
 * which that file defines, with the format as a constant.
 */
#ifndef QWEN_KERNEL_UNPACK256_H
#define QWEN_KERNEL_UNPACK256_H

#include "engine/kernel/x86/base.h"

/* Dwords of four weights, of 8 rows: this quad of 32-block j of group g. */
PI void store_quad(uint32_t type, struct panel *p, size_t g, size_t j,
    int half, int quad, __m256i v);

/*
 * Turn 8 rows of 16 bytes into 4 registers: register i holds dword i of all
 * rows, row r in lane r.
 */
PI void
turn4(const unsigned char *const *p, __m256i *o)
{
	__m256i r[4], a, b, c, d;
	int i;

	UNROLL
	for (i = 0; i < 4; i++)
		r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(
		    _mm_loadu_si128((const __m128i *)p[i])),
		    _mm_loadu_si128((const __m128i *)p[i + 4]), 1);
	a = _mm256_unpacklo_epi32(r[0], r[1]);
	b = _mm256_unpackhi_epi32(r[0], r[1]);
	c = _mm256_unpacklo_epi32(r[2], r[3]);
	d = _mm256_unpackhi_epi32(r[2], r[3]);
	o[0] = _mm256_unpacklo_epi64(a, c);
	o[1] = _mm256_unpackhi_epi64(a, c);
	o[2] = _mm256_unpacklo_epi64(b, d);
	o[3] = _mm256_unpackhi_epi64(b, d);
}

/* The same for 16 bytes at a place in the rows. */
PI void
turn4_at(const unsigned char *const *p, size_t at, __m256i *o)
{
	const unsigned char *q[8];
	int i;

	UNROLL
	for (i = 0; i < 8; i++)
		q[i] = p[i] + at;
	turn4(q, o);
}

/* The f16 in the lower halves of 8 dwords. */
PI __m256
low_f16(__m256i v)
{
	v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
	return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(v),
	    _mm256_extracti128_si256(v, 1)));
}

/* The f16 at the same place in 8 rows. */
PI __m256
load_d8(const unsigned char *const *p, size_t at)
{
	uint16_t h[8];
	int i;

	for (i = 0; i < 8; i++)
		memcpy(&h[i], p[i] + at, 2);
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h));
}

PI __m256i
load8(const void *p)
{
	return _mm256_load_si256(p);
}

PI void
store8(void *p, __m256i v)
{
	_mm256_store_si256(p, v);
}

/* ---- Q4_K and Q5_K */

/* A byte that stands alone in each lane, into both halves. */
PI __m256i
twice(__m256i v)
{
	return _mm256_or_si256(v, _mm256_slli_epi32(v, 16));
}

/* d, dmin, scales and minimums: the first 16 bytes of 8 rows' blocks. */
PI void
unpack_scales_k4(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m256i m6 = _mm256_set1_epi32(0x3f3f3f3f);
	const __m256i m4 = _mm256_set1_epi32(0x0f0f0f0f);
	const __m256i m2 = _mm256_set1_epi32(0x30303030);
	const __m256i byte = _mm256_set1_epi32(255);
	__m256i h[4], s[2], n[2];
	int i, j;

	turn4(p, h);
	_mm256_store_ps(to->d[g][0] + 8 * half, low_f16(h[0]));
	_mm256_store_ps(to->dmin[g] + 8 * half,
	    low_f16(_mm256_srli_epi32(h[0], 16)));
	s[0] = _mm256_and_si256(h[1], m6);
	n[0] = _mm256_and_si256(h[2], m6);
	s[1] = _mm256_or_si256(_mm256_and_si256(h[3], m4),
	    _mm256_and_si256(_mm256_srli_epi32(h[1], 2), m2));
	n[1] = _mm256_or_si256(
	    _mm256_and_si256(_mm256_srli_epi32(h[3], 4), m4),
	    _mm256_and_si256(_mm256_srli_epi32(h[2], 2), m2));
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++)
			store8(to->scale[g][4 * i + j] + 8 * half,
			    twice(_mm256_and_si256(_mm256_srli_epi32(s[i],
			    8 * j), byte)));
		/* bytes 0 and 1, then 2 and 3, as a pair of int16 */
		for (j = 0; j < 2; j++) {
			__m256i v = _mm256_srli_epi32(n[i], 16 * j);

			store8(to->min[g][2 * i + j] + 8 * half,
			    _mm256_or_si256(_mm256_and_si256(v, byte),
			    _mm256_and_si256(_mm256_slli_epi32(v, 8),
			    _mm256_set1_epi32(0xff0000))));
		}
	}
}

PI void
unpack8_q4_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m256i m4 = _mm256_set1_epi8(15);
	__m256i v[4];
	size_t k;
	int i;

	unpack_scales_k4(p, to, g, half);
	for (k = 0; k < 8; k++) {
		const size_t j = k / 2 * 2;
		const int quad = (int)(k % 2) * 4;

		turn4_at(p, 16 + 16 * k, v);
		UNROLL
		for (i = 0; i < 4; i++) {
			store_quad(QT_Q4_K, to, g, j, half, quad + i,
			    _mm256_and_si256(v[i], m4));
			store_quad(QT_Q4_K, to, g, j + 1, half, quad + i,
			    _mm256_and_si256(_mm256_srli_epi16(v[i], 4), m4));
		}
	}
}

/* nibbles with the given bits of h moved to bit 4 */
PI __m256i
with_bit(__m256i nibbles, __m256i h, int bit)
{
	const __m256i m1 = _mm256_set1_epi8(1);

	return _mm256_or_si256(nibbles, _mm256_slli_epi16(
	    _mm256_and_si256(_mm256_srli_epi16(h, bit), m1), 4));
}

PI void
unpack8_q5_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m256i m4 = _mm256_set1_epi8(15);
	__m256i v[4], h[4];
	size_t k;
	int i, j;

	unpack_scales_k4(p, to, g, half);
	for (k = 0; k < 2; k++) {
		turn4_at(p, 16 + 16 * k, h);
		for (j = 0; j < 4; j++) {
			const size_t at = 2 * (size_t)j;
			const int quad = 4 * (int)k;

			turn4_at(p, 48 + 32 * (size_t)j + 16 * k, v);
			UNROLL
			for (i = 0; i < 4; i++) {
				store_quad(QT_Q5_K, to, g, at, half, quad + i,
				    with_bit(_mm256_and_si256(v[i], m4), h[i],
				    2 * j));
				store_quad(QT_Q5_K, to, g, at + 1, half,
				    quad + i, with_bit(_mm256_and_si256(
				    _mm256_srli_epi16(v[i], 4), m4), h[i],
				    2 * j + 1));
			}
		}
	}
}

/* ---- Q6_K */

/* Sixteen signed scales; also as pairs of int16 for the offset of 32. */
PI void
unpack_scales_q6_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	__m256i v[4], s[2], t;
	int i, j, k;

	turn4_at(p, 192, v);
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 2; j++) {
			for (k = 0; k < 2; k++) {
				/* signed, in the upper half; then in both */
				t = _mm256_srai_epi16(_mm256_slli_epi32(v[i],
				    24 - 16 * j - 8 * k), 8);
				s[k] = _mm256_blend_epi16(
				    _mm256_srli_epi32(t, 16), t, 0xaa);
				store8(to->scale[g][4 * i + 2 * j + k] +
				    8 * half, s[k]);
			}
			store8(to->min[g][2 * i + j] + 8 * half,
			    _mm256_blend_epi16(s[0], s[1], 0xaa));
		}
	}
	_mm256_store_ps(to->d[g][0] + 8 * half, load_d8(p, 208));
}

PI void
unpack8_q6_k(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m256i m4 = _mm256_set1_epi8(15), m2 = _mm256_set1_epi8(0x30);
	__m256i a[4], b[4], h[4];
	size_t k, l;
	int i;

	unpack_scales_q6_k(p, to, g, half);
	for (k = 0; k < 2; k++) {
		for (l = 0; l < 2; l++) {
			turn4_at(p, 64 * k + 16 * l, a);
			turn4_at(p, 64 * k + 32 + 16 * l, b);
			turn4_at(p, 128 + 32 * k + 16 * l, h);
#define PUT(j, nibbles, high)						\
	store_quad(QT_Q6_K, to, g, 4 * k + (j), half, 4 * (int)l + i,	\
	    _mm256_or_si256(_mm256_and_si256(nibbles, m4),		\
	    _mm256_and_si256(high, m2)))
			UNROLL
			for (i = 0; i < 4; i++) {
				PUT(0, a[i], _mm256_slli_epi16(h[i], 4));
				PUT(1, b[i], _mm256_slli_epi16(h[i], 2));
				PUT(2, _mm256_srli_epi16(a[i], 4), h[i]);
				PUT(3, _mm256_srli_epi16(b[i], 4),
				    _mm256_srli_epi16(h[i], 2));
			}
#undef PUT
		}
	}
}

/* ---- Q8_0 */

PI void
unpack8_q8_0(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	__m256i v[4];
	size_t j, k;
	int i;

	for (j = 0; j < 8; j++) {
		_mm256_store_ps(to->d[g][j] + 8 * half, load_d8(p, 34 * j));
		for (k = 0; k < 2; k++) {
			turn4_at(p, 34 * j + 2 + 16 * k, v);
			UNROLL
			for (i = 0; i < 4; i++)
				store_quad(QT_Q8_0, to, g, j, half,
				    4 * (int)k + i, v[i]);
		}
	}
}

/* ---- all of them */

/*
 * 8 rows of one group into half a panel; p: their first bytes of it.  The type
 * is a constant where it is called.
 */
PI void
unpack8(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	switch (type) {
	case QT_Q4_K:
		unpack8_q4_k(p, to, g, half);
		break;
	case QT_Q5_K:
		unpack8_q5_k(p, to, g, half);
		break;
	case QT_Q6_K:
		unpack8_q6_k(p, to, g, half);
		break;
	default:
		unpack8_q8_0(p, to, g, half);
	}
}

#endif
