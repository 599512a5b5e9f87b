/* SPDX-License-Identifier: ISC */
/*
 * decode_grid.h - weights that are looked up in grids: indices first, then
 * entries, then signs.
 */
#ifndef QWEN_KERNEL_DECODE_GRID_H
#define QWEN_KERNEL_DECODE_GRID_H

#include "engine/kernel/x86/bits.h"

/* Read one by one from memory, which takes less than from registers. */
#define IN_MEMORY(array) __asm__("" : "+m"(array))

/* n indices of eight bits, each with the bits of high from bit 8 on. */
PI __m256i
indices(const unsigned char *p, __m256i high)
{
	return _mm256_cvtepu8_epi16(load16(p)) | high;
}

PI __m128i
four4(const uint8_t (*grid)[4], const uint16_t *i)
{
	return _mm_setr_epi32(dword_at(grid[i[0]]), dword_at(grid[i[1]]),
	    dword_at(grid[i[2]]), dword_at(grid[i[3]]));
}

PI __m128i
two8(const uint8_t (*grid)[8], const uint16_t *i)
{
	return _mm_set_epi64x((long long)qword_at(grid[i[1]]),
	    (long long)qword_at(grid[i[0]]));
}

/* Register k of weights, n bytes in an entry. */
#define GRID_WEIGHTS(of, n, grid, i, k)					\
	join(_mm256_set_m128i(						\
	    of(grid, (i) + (WIDE * (k) + 16) / (n)),			\
	    of(grid, (i) + WIDE * (k) / (n))), _mm256_set_m128i(	\
	    of(grid, (i) + (WIDE * (k) + WIDE - 16) / (n)),		\
	    of(grid, (i) + (WIDE * (k) + WIDE - 32) / (n))))

/* Bytes of seven signs each: their eighth makes the number of ones even. */
PI __m256i
eighth_sign(__m256i v)
{
	/* 128 where a nibble has an odd number of ones */
	const __m256i odd_ones = _mm256_broadcastsi128_si256(_mm_setr_epi8(0,
	    -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128,
	    0));
	__m256i m4 = _mm256_set1_epi8(15);

	return v ^ _mm256_shuffle_epi8(odd_ones, v & m4) ^
	    _mm256_shuffle_epi8(odd_ones, _mm256_srli_epi16(v, 4) & m4);
}

/*
 * Eight dwords of four times seven signs and four bits of scale: 32 bytes of
 * signs, and the scales.
 */
PI __m256i
signs_xxs(__m256i a, uint8_t *sign)
{
	const __m256i m7 = _mm256_set1_epi32(0x7f);
	__m256i v = (a & m7) |
	    (_mm256_slli_epi32(a, 1) & _mm256_slli_epi32(m7, 8)) |
	    (_mm256_slli_epi32(a, 2) & _mm256_slli_epi32(m7, 16)) |
	    (_mm256_slli_epi32(a, 3) & _mm256_slli_epi32(m7, 24));

	_mm256_store_si256((__m256i *)sign, eighth_sign(v));
	a = _mm256_srli_epi32(a, 28);
	return odd(a | _mm256_slli_epi32(a, 16));
}

PI void
decode_iq3_xxs(const unsigned char *p, struct group *u)
{
	uint16_t i[64] __attribute__((aligned(32)));
	uint8_t sign[32] __attribute__((aligned(32)));
	int k;

	u->scale = signs_xxs(load32(p + 66), sign);
	for (k = 0; k < 4; k++)
		_mm256_store_si256((__m256i *)i + k, indices(p + 2 + 16 * k,
		    _mm256_setzero_si256()));
	IN_MEMORY(i);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = with_signs(GRID_WEIGHTS(four4, 4, qwen_grid_iq3_xxs,
		    i, k), bits_at(sign + WIDE / 8 * k), 64);
}

PI void
decode_iq3_s(const unsigned char *p, struct group *u)
{
	const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128,
	    256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
	uint16_t i[64] __attribute__((aligned(32)));
	int k;

	u->scale = odd(twice(_mm_cvtepu8_epi16(nibbles_of(load4(p + 106)))));
	for (k = 0; k < 4; k++) {
		__m256i high = _mm256_set1_epi16(
		    (short)qwen_le16(p + 66 + 2 * k));

		high = _mm256_cmpeq_epi16(high & bit, bit) &
		    _mm256_set1_epi16(256);
		_mm256_store_si256((__m256i *)i + k, indices(p + 2 + 16 * k,
		    high));
	}
	IN_MEMORY(i);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = with_signs(GRID_WEIGHTS(four4, 4, qwen_grid_iq3_s,
		    i, k), bits_at(p + 74 + WIDE / 8 * k), 16);
}

PI void
decode_iq2_xxs(const unsigned char *p, struct group *u)
{
	uint16_t i[32] __attribute__((aligned(32)));
	uint8_t sign[32] __attribute__((aligned(32)));
	/* eight times four indices, then a dword: these apart from those */
	__m256i a = _mm256_shuffle_epi32(load32(p + 2), 0xd8);
	__m256i b = _mm256_shuffle_epi32(load32(p + 34), 0xd8);
	__m256i lo = _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(a, b),
	    0xd8);
	int k;

	u->scale = signs_xxs(_mm256_permute4x64_epi64(
	    _mm256_unpackhi_epi64(a, b), 0xd8), sign);
	_mm256_store_si256((__m256i *)i, _mm256_cvtepu8_epi16(
	    _mm256_castsi256_si128(lo)));
	_mm256_store_si256((__m256i *)i + 1, _mm256_cvtepu8_epi16(
	    _mm256_extracti128_si256(lo, 1)));
	IN_MEMORY(i);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = with_signs(GRID_WEIGHTS(two8, 8, qwen_grid_iq2_xxs,
		    i, k), bits_at(sign + WIDE / 8 * k), 64);
}

PI void
decode_iq2_xs(const unsigned char *p, struct group *u)
{
	const __m256i m9 = _mm256_set1_epi16(511);
	uint16_t i[32] __attribute__((aligned(32)));
	uint8_t sign[32] __attribute__((aligned(32)));
	__m256i a = load32(p + 2), b = load32(p + 34);
	int k;

	u->scale = odd(_mm256_cvtepu8_epi16(nibbles_of(load8(p + 66))));
	_mm256_store_si256((__m256i *)i, a & m9);
	_mm256_store_si256((__m256i *)i + 1, b & m9);
	a = _mm256_packus_epi16(_mm256_srli_epi16(a, 9),
	    _mm256_srli_epi16(b, 9));
	_mm256_store_si256((__m256i *)sign, eighth_sign(
	    _mm256_permute4x64_epi64(a, 0xd8)));
	IN_MEMORY(i);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = with_signs(GRID_WEIGHTS(two8, 8, qwen_grid_iq2_xs,
		    i, k), bits_at(sign + WIDE / 8 * k), 64);
}

PI void
decode_iq2_s(const unsigned char *p, struct group *u)
{
	/* byte j of four, in four words, its pairs of bits to bit 8 */
	const __m256i each = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1,
	    -1, 1, -1, 1, -1, 1, -1, 2, -1, 2, -1, 2, -1, 2, -1, 3, -1, 3, -1,
	    3, -1, 3, -1);
	const __m256i up = _mm256_set1_epi64x(0x0004001000400100);
	uint16_t i[32] __attribute__((aligned(32)));
	int k;

	u->scale = odd(_mm256_cvtepu8_epi16(nibbles_of(load8(p + 74))));
	for (k = 0; k < 2; k++) {
		__m256i high = _mm256_shuffle_epi8(_mm256_set1_epi32(
		    dword_at(p + 66 + 4 * k)), each);

		high = _mm256_mullo_epi16(high, up) & _mm256_set1_epi16(0x300);
		_mm256_store_si256((__m256i *)i + k, indices(p + 2 + 16 * k,
		    high));
	}
	IN_MEMORY(i);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = with_signs(GRID_WEIGHTS(two8, 8, qwen_grid_iq2_s,
		    i, k), bits_at(p + 34 + WIDE / 8 * k), 64);
}

/*
 * IQ1: 32 indices are qs with bits 8 to 10 of high.  Weights are those of the
 * grid and eight more or less one: what is added is in move, a byte for each
 * eight weights.
 */
PI void
decode_iq1(const unsigned char *qs, const __m256i *high, const uint8_t *move,
    struct group *u)
{
	uint16_t i[32] __attribute__((aligned(32)));
	int k;

	for (k = 0; k < 2; k++)
		_mm256_store_si256((__m256i *)i + k, indices(qs + 16 * k,
		    high[k] & _mm256_set1_epi16(0x700)));
	IN_MEMORY(i);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = W(add_epi8)(GRID_WEIGHTS(two8, 8, qwen_grid_iq1, i,
		    k), each8(move + WIDE / 8 * k));
}

PI void
decode_iq1_s(const unsigned char *p, struct group *u)
{
	/* a word of four times three bits, to bit 9: so all go up */
	const __m256i up = _mm256_set1_epi64x(0x0001000800400200);
	const __m128i four = _mm_setr_epi8(1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5,
	    7, 7, 7, 7);
	uint8_t move[32] __attribute__((aligned(32)));
	__m128i h = load16(p + 34), down;
	__m256i high[2];
	int k;

	u->scale = odd(twice(_mm_srli_epi16(h, 12) & _mm_set1_epi16(7)));
	down = _mm_srai_epi16(h, 15);
	for (k = 0; k < 2; k++) {
		__m256i v = _mm256_permute4x64_epi64(_mm256_castsi128_si256(
		    k == 0 ? h : _mm_unpackhi_epi64(h, h)), 0x00);

		/* words 0, 0, 0, 0, 1, 1, 1, 1; 2, ... */
		v = _mm256_shuffle_epi8(v, _mm256_setr_epi8(0, 1, 0, 1, 0, 1,
		    0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6,
		    7, 6, 7, 6, 7, 6, 7));
		high[k] = _mm256_srli_epi16(_mm256_mullo_epi16(v, up), 1);
		_mm_store_si128((__m128i *)move + k, _mm_add_epi8(
		    _mm_set1_epi8(9), _mm_shuffle_epi8(k == 0 ? down :
		    _mm_unpackhi_epi64(down, down), four) &
		    _mm_set1_epi8(-2)));
	}
	decode_iq1(p + 2, high, move, u);
}

PI void
decode_iq1_m(const unsigned char *p, struct group *u)
{
	const __m256i words = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2,
	    3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
	uint8_t move[32] __attribute__((aligned(32)));
	__m128i h = load16(p + 32), n;
	__m256i high[2];
	int k;

	/* three bits of a word to its top, then down */
	u->scale = _mm256_shuffle_epi8(_mm256_set1_epi64x(
	    (long long)qword_at(p + 48)), words);
	u->scale = odd(_mm256_srli_epi16(_mm256_mullo_epi16(u->scale,
	    _mm256_set1_epi64x(0x0010008004002000)), 13));
	for (k = 0; k < 2; k++) {
		n = nibbles_of(k == 0 ? h : _mm_unpackhi_epi64(h, h));
		high[k] = _mm256_slli_epi16(_mm256_cvtepu8_epi16(n), 8);
		_mm_store_si128((__m128i *)move + k, _mm_sub_epi8(
		    _mm_set1_epi8(9), _mm_srli_epi16(n, 2) &
		    _mm_set1_epi8(2)));
	}
	decode_iq1(p, high, move, u);
}

#endif
