/* SPDX-License-Identifier: ISC */
/*
 * unpack256.h - what panels in 256-bit registers are made with: 8 rows turned
 * so that they lie in the 8 lanes.  struct panel has, of the group g, scale and
 * min as pairs of int16, d and dmin.
 */
#ifndef QWEN_KERNEL_UNPACK256_H
#define QWEN_KERNEL_UNPACK256_H

#include "engine/kernel/x86/panel_base.h"

struct panel;

/* Dwords of four weights, of 8 rows: this quad of 32-block j of group g. */
PI void store_quad(struct panel *p, size_t g, size_t j, int half, int quad,
    __m256i v);

/* 8 rows of one group; p: their first bytes of it. */
PI void unpack8(const unsigned char *const *p, struct panel *to, size_t g,
    int half);

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

#endif
