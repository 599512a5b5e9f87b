/* SPDX-License-Identifier: ISC */
/*
 * decode_grid.h - weights that are looked up in grids: first indices, then
 * entries, then signs.
 */
#ifndef QWEN_KERNEL_DECODE_GRID_H
#define QWEN_KERNEL_DECODE_GRID_H

#include "engine/cpu/kernel/x86/bits.h"

/* A block being decoded. */
struct grid {
	const unsigned char	*p;
	/* a bit per weight, or the number added to each eight */
	const uint8_t		*sign;
	__m256i			 scale;		/* as in struct group */
	uint8_t			 made[32] __attribute__((aligned(32)));
	uint16_t		 i[64] __attribute__((aligned(32)));
};

/* ---- indices: as in the file, or joined from two places */

/*
 * Keeps an array in memory: reading indices one by one is faster there than
 * from registers.
 */
#define IN_MEMORY(array) __asm__("" : "+m"(array))

/* Joins n indices: eight bits from p, the bits from bit 8 on from high. */
KERNEL_INLINE __m256i
indices(const unsigned char *p, __m256i high)
{
	return _mm256_cvtepu8_epi16(load16(p)) | high;
}

KERNEL_INLINE void
indices_iq3_s(const unsigned char *p, __m256i *i)
{
	const __m256i bit = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128,
	    256, 512, 1024, 2048, 4096, 8192, 16384, -32768);
	int k;

	for (k = 0; k < 4; k++) {
		__m256i high = _mm256_set1_epi16(
		    (short)qwen_le16(p + 66 + 2 * k));

		high = _mm256_cmpeq_epi16(high & bit, bit) &
		    _mm256_set1_epi16(256);
		i[k] = indices(p + 2 + 16 * k, high);
	}
}

KERNEL_INLINE void
indices_iq2_s(const unsigned char *p, __m256i *i)
{
	/* byte j of four to four words, its pairs of bits to bit 8 */
	const __m256i each = _mm256_setr_epi8(0, -1, 0, -1, 0, -1, 0, -1, 1,
	    -1, 1, -1, 1, -1, 1, -1, 2, -1, 2, -1, 2, -1, 2, -1, 3, -1, 3, -1,
	    3, -1, 3, -1);
	const __m256i up = _mm256_set1_epi64x(0x0004001000400100);
	int k;

	for (k = 0; k < 2; k++) {
		__m256i high = _mm256_shuffle_epi8(_mm256_set1_epi32(
		    dword_at(p + 66 + 4 * k)), each);

		high = _mm256_mullo_epi16(high, up) & _mm256_set1_epi16(0x300);
		i[k] = indices(p + 2 + 16 * k, high);
	}
}

/*
 * The upper bits of IQ1_S indices are three of each four bits of a word, moved
 * to bit 8.
 */
KERNEL_INLINE void
indices_iq1_s(const unsigned char *p, __m256i *i)
{
	/* a word has four times three bits; all are shifted up to bit 9 */
	const __m256i up = _mm256_set1_epi64x(0x0001000800400200);
	__m128i h = load16(p + 34);
	int k;

	for (k = 0; k < 2; k++) {
		__m256i v = _mm256_permute4x64_epi64(_mm256_castsi128_si256(
		    k == 0 ? h : _mm_unpackhi_epi64(h, h)), 0x00);

		/* words 0, 0, 0, 0, 1, 1, 1, 1; 2, ... */
		v = _mm256_shuffle_epi8(v, _mm256_setr_epi8(0, 1, 0, 1, 0, 1,
		    0, 1, 2, 3, 2, 3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6,
		    7, 6, 7, 6, 7, 6, 7));
		v = _mm256_srli_epi16(_mm256_mullo_epi16(v, up), 1);
		i[k] = indices(p + 2 + 16 * k, v & _mm256_set1_epi16(0x700));
	}
}

KERNEL_INLINE void
indices_iq1_m(const unsigned char *p, __m256i *i)
{
	__m128i h = load16(p + 32);
	int k;

	for (k = 0; k < 2; k++) {
		__m256i v = _mm256_slli_epi16(_mm256_cvtepu8_epi16(nibbles_of(
		    k == 0 ? h : _mm_unpackhi_epi64(h, h))), 8);

		i[k] = indices(p + 16 * k, v & _mm256_set1_epi16(0x700));
	}
}

KERNEL_INLINE void
make_indices(uint32_t type, struct grid *g)
{
	__m256i *i = (__m256i *)g->i;

	switch (type) {
	case QT_IQ1_S:
		indices_iq1_s(g->p, i);
		break;
	case QT_IQ1_M:
		indices_iq1_m(g->p, i);
		break;
	case QT_IQ2_S:
		indices_iq2_s(g->p, i);
		break;
	case QT_IQ3_S:
		indices_iq3_s(g->p, i);
	}
	IN_MEMORY(g->i);
}

/*
 * Returns the bits of an index in the file: bytes, or words; the words of
 * IQ2_XS have seven signs above the index.
 */
KERNEL_INLINE int
index_bits(uint32_t type)
{
	return type == QT_IQ2_XXS || type == QT_IQ3_XXS ? 8 : 16;
}

/*
 * Returns four indices from i on, a multiple of four, the first in the lowest
 * bits.
 */
KERNEL_INLINE uint64_t
four_indices(uint32_t type, const struct grid *g, int i)
{
	switch (type) {
	case QT_IQ2_XXS:
		return (uint32_t)dword_at(g->p + 2 + 2 * i);
	case QT_IQ2_XS:
		return qword_at(g->p + 2 + 2 * i);
	case QT_IQ3_XXS:
		return (uint32_t)dword_at(g->p + 2 + i);
	default:
		return qword_at(g->i + i);
	}
}

KERNEL_INLINE size_t
index_of(uint32_t type, uint64_t four, int j)
{
	const int bits = index_bits(type);

	return four >> bits * j & (type == QT_IQ2_XS ? 511u :
	    (1u << bits) - 1);
}

/* ---- signs and scales */

/*
 * Completes bytes of seven signs with an eighth, so that the number of ones is
 * even.
 */
KERNEL_INLINE __m256i
eighth_sign(__m256i v)
{
	/* 128 if a nibble has an odd number of ones */
	const __m256i odd_ones = _mm256_broadcastsi128_si256(_mm_setr_epi8(0,
	    -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0, -128, -128,
	    0));
	__m256i m4 = _mm256_set1_epi8(15);

	return v ^ _mm256_shuffle_epi8(odd_ones, v & m4) ^
	    _mm256_shuffle_epi8(odd_ones, _mm256_srli_epi16(v, 4) & m4);
}

/* Unpacks eight dwords of four times seven signs: 32 bytes. */
KERNEL_INLINE __m256i
signs_xxs(__m256i a)
{
	const __m256i m7 = _mm256_set1_epi32(0x7f);

	return eighth_sign((a & m7) |
	    (_mm256_slli_epi32(a, 1) & _mm256_slli_epi32(m7, 8)) |
	    (_mm256_slli_epi32(a, 2) & _mm256_slli_epi32(m7, 16)) |
	    (_mm256_slli_epi32(a, 3) & _mm256_slli_epi32(m7, 24)));
}

/*
 * Unpacks the signs of the XXS formats, and the four bits of scale above them.
 */
KERNEL_INLINE void
open_xxs(__m256i a, struct grid *g)
{
	_mm256_store_si256((__m256i *)g->made, signs_xxs(a));
	a = _mm256_srli_epi32(a, 28);
	g->scale = odd(a | _mm256_slli_epi32(a, 16));
}

KERNEL_INLINE void
open_iq2_xs(const unsigned char *p, struct grid *g)
{
	__m256i a = load32(p + 2), b = load32(p + 34);

	g->scale = odd(_mm256_cvtepu8_epi16(nibbles_of(load8(p + 66))));
	a = _mm256_packus_epi16(_mm256_srli_epi16(a, 9),
	    _mm256_srli_epi16(b, 9));
	_mm256_store_si256((__m256i *)g->made, eighth_sign(
	    _mm256_permute4x64_epi64(a, 0xd8)));
}

/*
 * Weights of IQ1 are an entry minus 8, plus or minus one.  With the bias of 16,
 * 9 or 7 is added to the entry.
 */
KERNEL_INLINE void
open_iq1_s(const unsigned char *p, struct grid *g)
{
	const __m128i four = _mm_setr_epi8(1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5,
	    7, 7, 7, 7);
	__m128i h = load16(p + 34), down = _mm_srai_epi16(h, 15);
	int k;

	g->scale = odd(twice(_mm_srli_epi16(h, 12) & _mm_set1_epi16(7)));
	for (k = 0; k < 2; k++)
		_mm_store_si128((__m128i *)g->made + k, _mm_add_epi8(
		    _mm_set1_epi8(9), _mm_shuffle_epi8(k == 0 ? down :
		    _mm_unpackhi_epi64(down, down), four) &
		    _mm_set1_epi8(-2)));
}

KERNEL_INLINE void
open_iq1_m(const unsigned char *p, struct grid *g)
{
	const __m256i words = _mm256_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2,
	    3, 2, 3, 2, 3, 4, 5, 4, 5, 4, 5, 4, 5, 6, 7, 6, 7, 6, 7, 6, 7);
	__m128i h = load16(p + 32), n;
	int k;

	/* moves three bits of a word to the top, then down */
	g->scale = _mm256_shuffle_epi8(_mm256_set1_epi64x(
	    (long long)qword_at(p + 48)), words);
	g->scale = odd(_mm256_srli_epi16(_mm256_mullo_epi16(g->scale,
	    _mm256_set1_epi64x(0x0010008004002000)), 13));
	for (k = 0; k < 2; k++) {
		n = nibbles_of(k == 0 ? h : _mm_unpackhi_epi64(h, h));
		_mm_store_si128((__m128i *)g->made + k, _mm_sub_epi8(
		    _mm_set1_epi8(9), _mm_srli_epi16(n, 2) &
		    _mm_set1_epi8(2)));
	}
}

/* Decodes everything except the weights of the block at p. */
KERNEL_INLINE void
grid_open(uint32_t type, const unsigned char *p, struct grid *g)
{
	g->p = p;
	g->sign = g->made;
	switch (type) {
	case QT_IQ1_S:
		open_iq1_s(p, g);
		break;
	case QT_IQ1_M:
		open_iq1_m(p, g);
		break;
	case QT_IQ2_XXS: {
		__m256i a = _mm256_shuffle_epi32(load32(p + 2), 0xd8);
		__m256i b = _mm256_shuffle_epi32(load32(p + 34), 0xd8);

		/* layout: eight times four indices, then a dword */
		open_xxs(_mm256_permute4x64_epi64(_mm256_unpackhi_epi64(a, b),
		    0xd8), g);
		break;
	}
	case QT_IQ2_XS:
		open_iq2_xs(p, g);
		break;
	case QT_IQ2_S:
		g->scale = odd(_mm256_cvtepu8_epi16(nibbles_of(load8(p + 74))));
		g->sign = p + 34;
		break;
	case QT_IQ3_XXS:
		open_xxs(load32(p + 66), g);
		break;
	default:
		g->scale = odd(twice(_mm_cvtepu8_epi16(nibbles_of(load4(
		    p + 106)))));
		g->sign = p + 74;
	}
	make_indices(type, g);
}

/* ---- entries */

/* Returns four entries of four weights, or two entries of eight. */
KERNEL_INLINE __m128i
entries4(uint32_t type, const uint8_t (*grid)[4], uint64_t four)
{
	__m128i a = _mm_cvtsi32_si128(dword_at(grid[index_of(type, four, 0)]));
	__m128i b = _mm_cvtsi32_si128(dword_at(grid[index_of(type, four, 2)]));

	a = _mm_insert_epi32(a, dword_at(grid[index_of(type, four, 1)]), 1);
	b = _mm_insert_epi32(b, dword_at(grid[index_of(type, four, 3)]), 1);
	return _mm_unpacklo_epi64(a, b);
}

KERNEL_INLINE __m128i
entries2(uint32_t type, const uint8_t (*grid)[8], uint64_t four, int j)
{
	__m128 v = _mm_castsi128_ps(load8(grid[index_of(type, four, j)]));

	return _mm_castps_si128(_mm_loadh_pi(v,
	    (const __m64 *)grid[index_of(type, four, j + 1)]));
}

KERNEL_INLINE __m256i
entries8(uint32_t type, const uint8_t (*grid)[8], const struct grid *g, int i)
{
	const uint64_t four = four_indices(type, g, i);

	return _mm256_set_m128i(entries2(type, grid, four, 2),
	    entries2(type, grid, four, 0));
}

/* Returns 32 weights from weight `at' on. */
KERNEL_INLINE __m256i
entries(uint32_t type, const struct grid *g, int at)
{
	switch (type) {
	case QT_IQ2_XXS:
		return entries8(type, qwen_grid_iq2_xxs, g, at / 8);
	case QT_IQ2_XS:
		return entries8(type, qwen_grid_iq2_xs, g, at / 8);
	case QT_IQ2_S:
		return entries8(type, qwen_grid_iq2_s, g, at / 8);
	case QT_IQ1_S:
	case QT_IQ1_M:
		return entries8(type, qwen_grid_iq1, g, at / 8);
	default: {
		const uint8_t (*grid)[4] = type == QT_IQ3_S ? qwen_grid_iq3_s :
		    qwen_grid_iq3_xxs;

		return _mm256_set_m128i(
		    entries4(type, grid, four_indices(type, g, at / 4 + 4)),
		    entries4(type, grid, four_indices(type, g, at / 4)));
	}
	}
}

/* Returns register k of a block's weights. */
KERNEL_INLINE wide_i
grid_register(uint32_t type, const struct grid *g, int k)
{
	wide_i v = join(entries(type, g, WIDE * k),
	    entries(type, g, WIDE * k + WIDE - 32));

	if (type == QT_IQ1_S || type == QT_IQ1_M)
		return MM(add_epi8)(v, each8(g->sign + WIDE / 8 * k));
	return with_signs(v, bits_at(g->sign + WIDE / 8 * k),
	    qwen_traits[type].bias);
}

KERNEL_INLINE int
in_grid(uint32_t type)
{
	return type == QT_IQ1_S || type == QT_IQ1_M || type == QT_IQ2_XXS ||
	    type == QT_IQ2_XS || type == QT_IQ2_S || type == QT_IQ3_XXS ||
	    type == QT_IQ3_S;
}

KERNEL_INLINE void
decode_grid(uint32_t type, const unsigned char *p, struct group *u)
{
	struct grid g;
	int k;

	grid_open(type, p, &g);
	u->scale = g.scale;
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = grid_register(type, &g, k);
}

#endif
