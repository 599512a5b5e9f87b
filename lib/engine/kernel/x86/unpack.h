/* SPDX-License-Identifier: ISC */
/*
 * unpack.h - what all panels of 32 rows are made with: 16 rows turned so that
 * they lie in the 16 lanes.
 *
 * The including file has defined BLOCK_BYTES, of 256 weights, and defines
 * struct panel before it includes the unpack16() of a format.
 */
#ifndef QWEN_KERNEL_UNPACK_H
#define QWEN_KERNEL_UNPACK_H

#include "engine/kernel/x86/panel_base.h"

struct panel;

/* Dwords of four weights, of 16 rows: this quad of 32-block j of group g. */
PI void store_quad(struct panel *p, size_t g, size_t j, int half, int quad,
    __m512i v);

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

/* 16 rows of one group; p: their first bytes of it. */
PI void unpack16(const unsigned char *const *p, struct panel *to, size_t g,
    int half);

static inline void
unpack32(const struct qwen_matmul *m, struct panel *p, size_t r, size_t g0,
    size_t ng)
{
	const unsigned char *row[16];
	size_t g, i;
	int half;

	for (g = 0; g < ng; g++) {
		for (half = 0; half < 2; half++) {
			for (i = 0; i < 16; i++)
				row[i] = m->w + (r + 16 * (size_t)half + i) *
				    m->row_bytes + (g0 + g) * BLOCK_BYTES;
			unpack16(row, p, g, half);
		}
	}
}

#endif
