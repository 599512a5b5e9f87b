/* SPDX-License-Identifier: ISC */
/* decode_k.h - formats with 256 weights per d and without grids. */
#ifndef QWEN_KERNEL_DECODE_K_H
#define QWEN_KERNEL_DECODE_K_H

#include "engine/cpu/kernel/x86/bits.h"

KERNEL_INLINE void
decode_q2_k(const unsigned char *p, struct group *u)
{
	const __m128i m4 = _mm_set1_epi8(15);
	__m128i s = load16(p);
	int k;

	u->scale = _mm256_cvtepu8_epi16(s & m4);
	u->min = _mm256_cvtepu8_epi16(_mm_srli_epi16(s, 4) & m4);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = crumbs(p + 16, k);
}

/*
 * Unpacks six-bit scales minus 32: 16 nibbles by halves, then 16 pairs of bits.
 */
KERNEL_INLINE __m256i
scales_q3_k(const unsigned char *p)
{
	__m128i v = load16(p + 94);	/* the scales are bytes 2 .. 13 */
	__m128i lo = _mm_shuffle_epi8(v, _mm_setr_epi8(2, 3, 4, 5, 6, 7, 8, 9,
	    2, 3, 4, 5, 6, 7, 8, 9));
	__m128i hi = _mm_shuffle_epi8(v, _mm_setr_epi8(10, 11, 12, 13, 10, 11,
	    12, 13, 10, 11, 12, 13, 10, 11, 12, 13));

	lo = _mm_srlv_epi64(lo, _mm_set_epi64x(4, 0)) & _mm_set1_epi8(15);
	hi = _mm_srlv_epi32(hi, _mm_setr_epi32(0, 2, 4, 6)) &
	    _mm_set1_epi8(3);
	v = lo | _mm_slli_epi16(hi, 4);
	return _mm256_cvtepi8_epi16(_mm_sub_epi8(v, _mm_set1_epi8(32)));
}

KERNEL_INLINE void
decode_q3_k(const unsigned char *p, struct group *u)
{
	wide_i bits = in_halves(load32(p));
	int k;

	u->scale = scales_q3_k(p);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++) {
		wide_i v = crumbs(p + 32, k);
#ifdef __AVX512F__
		wide_i bit = join(_mm256_set1_epi8((char)(1 << 2 * k)),
		    _mm256_set1_epi8((char)(2 << 2 * k)));

		u->w[k] = _mm512_mask_add_epi8(v,
		    _mm512_test_epi8_mask(bits, bit), v, set8(4));
#else
		wide_i bit = k < 2 ? _mm256_slli_epi16(bits, 2 - k) :
		    _mm256_srli_epi16(bits, k - 2);

		u->w[k] = v | (bit & set8(4));
#endif
	}
}

KERNEL_INLINE void
decode_q6_k(const unsigned char *p, struct group *u)
{
	const wide_i m4 = set8(15), m2 = set8(0x30);
	int i;

	u->scale = _mm256_cvtepi8_epi16(load16(p + 192));
	UNROLL
	for (i = 0; i < 2; i++) {
		__m256i h = load32(p + 128 + 32 * i);
#ifdef __AVX512F__
		__m512i a = _mm512_loadu_si512(p + 64 * i);

		u->w[2 * i] = (a & m4) | (join(_mm256_slli_epi16(h, 4),
		    _mm256_slli_epi16(h, 2)) & m2);
		u->w[2 * i + 1] = (_mm512_srli_epi16(a, 4) & m4) |
		    (join(h, _mm256_srli_epi16(h, 2)) & m2);
#else
		__m256i a = load32(p + 64 * i), b = load32(p + 64 * i + 32);

		u->w[4 * i] = (a & m4) | (_mm256_slli_epi16(h, 4) & m2);
		u->w[4 * i + 1] = (b & m4) | (_mm256_slli_epi16(h, 2) & m2);
		u->w[4 * i + 2] = (_mm256_srli_epi16(a, 4) & m4) | (h & m2);
		u->w[4 * i + 3] = (_mm256_srli_epi16(b, 4) & m4) |
		    (_mm256_srli_epi16(h, 2) & m2);
#endif
	}
}

KERNEL_INLINE void
decode_iq4_xs(const unsigned char *p, struct group *u)
{
	/* moves bits 2j and 2j + 1 of a word to the top, then down */
	const __m128i to_top = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10,
	    1 << 8, 1 << 6, 1 << 4, 1 << 2, 1);
	__m128i hi = _mm_set1_epi16((short)dword_at(p + 2));
	__m128i lo = _mm_cvtepu8_epi16(nibbles_of(load4(p + 4)));
	int k;

	hi = _mm_slli_epi16(_mm_srli_epi16(_mm_mullo_epi16(hi, to_top), 14),
	    4);
	u->scale = twice(_mm_sub_epi16(lo | hi, _mm_set1_epi16(32)));
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = look_up(nibbles(p + 8 + WIDE / 2 * k, 16),
		    qwen_iq4_values);
}

/* ---- ternary */

/* Returns the next digit; bytes are base-3 fractions of 256. */
KERNEL_INLINE __m256i
digit(__m256i v)
{
	/* 3 v / 256 */
	__m256i one = _mm256_cmpeq_epi8(v, _mm256_max_epu8(v,
	    _mm256_set1_epi8(86)));
	__m256i two = _mm256_cmpeq_epi8(v, _mm256_max_epu8(v,
	    _mm256_set1_epi8((char)171)));

	return _mm256_sub_epi8(_mm256_setzero_si256(),
	    _mm256_add_epi8(one, two));
}

KERNEL_INLINE __m256i
times3(__m256i v)
{
	return _mm256_add_epi8(v, _mm256_add_epi8(v, v));
}

KERNEL_INLINE void
decode_tq1_0(const unsigned char *p, struct group *u)
{
	__m256i v[8], a = load32(p);
	__m128i b = load16(p + 32), c = _mm_set1_epi32(dword_at(p + 48));
	__m128i b3[5], c3[4];
	int i;

	for (i = 0; i < 5; i++, a = times3(a))
		v[i] = digit(a);
	for (i = 0; i < 5; i++, b = _mm_add_epi8(b, _mm_add_epi8(b, b)))
		b3[i] = b;
	for (i = 0; i < 4; i++, c = _mm_add_epi8(c, _mm_add_epi8(c, c)))
		c3[i] = c;
	c = _mm_unpacklo_epi64(_mm_unpacklo_epi32(c3[0], c3[1]),
	    _mm_unpacklo_epi32(c3[2], c3[3]));
	v[5] = digit(_mm256_set_m128i(b3[1], b3[0]));
	v[6] = digit(_mm256_set_m128i(b3[3], b3[2]));
	v[7] = digit(_mm256_set_m128i(c, b3[4]));
	u->scale = _mm256_set1_epi16(1);
	UNROLL
	for (i = 0; i < GROUP_REGS; i++)
		u->w[i] = join(v[WIDE / 32 * i], v[WIDE / 32 * i + WIDE / 64]);
}

KERNEL_INLINE void
decode_tq2_0(const unsigned char *p, struct group *u)
{
	int k;

	u->scale = _mm256_set1_epi16(1);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = crumbs(p, k);
}

#endif
