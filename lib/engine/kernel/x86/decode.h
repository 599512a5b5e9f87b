/* SPDX-License-Identifier: ISC */
/*
 * decode.h - weights of a row as bytes in the order of columns, and their
 * scales as integers, for each format.
 *
 * Weights have their format's bias added (formats.h), so that they are
 * unsigned.  Those with a bias of 128 are left signed: instructions differ in
 * what they make of them.
 */
#ifndef QWEN_KERNEL_DECODE_H
#define QWEN_KERNEL_DECODE_H

#include "engine/kernel/formats.h"
#include "engine/kernel/x86/wide.h"
#include "engine/quant/codebook.h"

#define WIDE ((int)sizeof(wide_i))	/* bytes of a register */
#define GROUP_REGS (QWEN_GROUP / WIDE)

/* 256 weights under one d. */
struct group {
	wide_i	w[GROUP_REGS];
	__m256i	scale, min;		/* 16 int16, one for each 16 weights */
};

PI __m128i
load16(const void *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

PI __m256i
load32(const void *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

PI uint64_t
qword_at(const void *p)
{
	uint64_t x;

	memcpy(&x, p, 8);
	return x;
}

/* The same 16 bytes in each 128-bit lane. */
PI wide_i
in_lanes(__m128i v)
{
#ifdef __AVX512F__
	return _mm512_broadcast_i32x4(v);
#else
	return _mm256_broadcastsi128_si256(v);
#endif
}

/* The same 32 bytes in each half. */
PI wide_i
in_halves(__m256i v)
{
#ifdef __AVX512F__
	return _mm512_broadcast_i64x4(v);
#else
	return v;
#endif
}

PI wide_i
set8(int x)
{
	return W(set1_epi8)((char)x);
}

/* A register of the bytes of a and b in its halves, if it has room for b. */
PI wide_i
join(__m256i a, __m256i b)
{
#ifdef __AVX512F__
	return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
#else
	(void)b;
	return a;
#endif
}

/* Values of a table of 16 for indices below. */
PI wide_i
look_up(wide_i index, const int8_t *table)
{
	return W(shuffle_epi8)(in_lanes(load16(table)), index);
}

/* ---- a bit for each weight */

#ifdef __AVX512F__
typedef __mmask64 wide_mask;
#else
typedef __m256i wide_mask;	/* bytes of 0 or -1 */
#endif

/* WIDE / 8 bytes from p on, each in eight places. */
PI wide_i
each8(const void *p)
{
#ifdef __AVX512F__
	return _mm512_shuffle_epi8(_mm512_set1_epi64((long long)qword_at(p)),
	    _mm512_set_epi64(0x0707070707070707, 0x0606060606060606,
	    0x0505050505050505, 0x0404040404040404, 0x0303030303030303,
	    0x0202020202020202, 0x0101010101010101, 0));
#else
	return _mm256_shuffle_epi8(_mm256_set1_epi32(dword_at(p)),
	    _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202,
	    0x0101010101010101, 0));
#endif
}

/* As many bits as a register has bytes, from p on. */
PI wide_mask
bits_at(const void *p)
{
#ifdef __AVX512F__
	return qword_at(p);
#else
	const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);

	return _mm256_cmpeq_epi8(each8(p) & bit, bit);
#endif
}

/* v where the bit is set, else 0. */
PI wide_i
where(wide_mask m, wide_i v)
{
#ifdef __AVX512F__
	return _mm512_maskz_mov_epi8(m, v);
#else
	return m & v;
#endif
}

/* bias + v, bias - v where the bit is set */
PI wide_i
with_signs(wide_i v, wide_mask m, int bias)
{
#ifdef __AVX512F__
	return _mm512_mask_sub_epi8(_mm512_add_epi8(v, set8(bias)), m,
	    set8(bias), v);
#else
	return _mm256_add_epi8(v ^ m, _mm256_sub_epi8(set8(bias), m));
#endif
}

/* ---- nibbles and pairs of bits */

/*
 * The 32 low, then high, nibbles of 16 bytes; and those of 16 bytes that lie
 * next bytes further.
 */
PI wide_i
nibbles(const unsigned char *p, size_t next)
{
#ifdef __AVX512F__
	const __m512i shift = _mm512_set_epi64(0x0004000400040004,
	    0x0004000400040004, 0, 0, 0x0004000400040004, 0x0004000400040004,
	    0, 0);
	__m512i v = _mm512_mask_broadcast_i32x4(in_lanes(load16(p)), 0xff00,
	    load16(p + next));

	return _mm512_srlv_epi16(v, shift) & set8(15);
#else
	__m128i v = load16(p);

	(void)next;
	return _mm256_inserti128_si256(_mm256_castsi128_si256(v),
	    _mm_srli_epi16(v, 4), 1) & set8(15);
#endif
}

/* The same of eight bytes each: 16 low nibbles in turn with 16 high ones. */
PI wide_i
nibbles8(const unsigned char *p)
{
#ifdef __AVX512F__
	__m512i v = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 3, 2, 2, 1, 1,
	    0, 0), _mm512_castsi256_si512(load32(p)));

	return _mm512_srlv_epi64(v, _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0)) &
	    set8(15);
#else
	__m256i v = _mm256_permute4x64_epi64(_mm256_castsi128_si256(load16(p)),
	    0x50);

	return _mm256_srlv_epi64(v, _mm256_set_epi64x(4, 0, 4, 0)) & set8(15);
#endif
}

/*
 * Register k of a group whose pairs of bits are those of Q2_K: 32 bytes hold
 * 128 weights, the first 32 in the lowest bits.
 */
PI wide_i
crumbs(const unsigned char *p, int k)
{
#ifdef __AVX512F__
	const __m512i shift = k % 2 == 0 ?
	    _mm512_inserti64x4(_mm512_setzero_si512(),
	    _mm256_set1_epi16(2), 1) :
	    _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(6), 1);

	return _mm512_srlv_epi16(in_halves(load32(p + k / 2 * 32)), shift) &
	    set8(3);
#else
	return _mm256_srli_epi16(load32(p + k / 4 * 32), 2 * (k % 4)) &
	    set8(3);
#endif
}

/* ---- scales */

/* Each of eight int16 twice. */
PI __m256i
twice(__m128i v)
{
	return _mm256_set_m128i(_mm_unpackhi_epi16(v, v),
	    _mm_unpacklo_epi16(v, v));
}

/* The nibbles of eight bytes, the low one of a byte before the high one. */
PI __m128i
nibbles_of(__m128i v)
{
	const __m128i m4 = _mm_set1_epi8(15);

	return _mm_unpacklo_epi8(v & m4, _mm_srli_epi16(v, 4) & m4);
}

PI __m128i
load4(const void *p)
{
	return _mm_cvtsi32_si128(dword_at(p));
}

PI __m128i
load8(const void *p)
{
	return _mm_loadl_epi64((const __m128i *)p);
}

/* 2 c + 1 */
PI __m256i
odd(__m256i c)
{
	return _mm256_add_epi16(_mm256_add_epi16(c, c), _mm256_set1_epi16(1));
}

/* ---- k-quants */

PI void
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

/* Of six bits, 32 too large: 16 nibbles by halves, then 16 pairs of bits. */
PI __m256i
scales_q3_k(const unsigned char *p)
{
	__m128i v = load16(p + 94);	/* they are 2 .. 13 of these */
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

PI void
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

PI void
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

PI void
decode_iq4_xs(const unsigned char *p, struct group *u)
{
	/* bits 2j and 2j + 1 of a word to its top, then down */
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
		    iq4_values);
}

/* ---- ternary */

/* The next digit: bytes are fractions of 256 in base 3. */
PI __m256i
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

PI __m256i
times3(__m256i v)
{
	return _mm256_add_epi8(v, _mm256_add_epi8(v, v));
}

PI void
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

PI void
decode_tq2_0(const unsigned char *p, struct group *u)
{
	int k;

	u->scale = _mm256_set1_epi16(1);
	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		u->w[k] = crumbs(p, k);
}

/* ---- look-ups in grids: indices first, then entries, then signs */

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

/* A group of a format with 256 weights under a d. */
PI void
decode(uint32_t type, const unsigned char *p, struct group *u)
{
	switch (type) {
	case QT_Q2_K:
		decode_q2_k(p, u);
		break;
	case QT_Q3_K:
		decode_q3_k(p, u);
		break;
	case QT_Q6_K:
		decode_q6_k(p, u);
		break;
	case QT_IQ4_XS:
		decode_iq4_xs(p, u);
		break;
	case QT_TQ1_0:
		decode_tq1_0(p, u);
		break;
	case QT_TQ2_0:
		decode_tq2_0(p, u);
		break;
	case QT_IQ1_S:
		decode_iq1_s(p, u);
		break;
	case QT_IQ1_M:
		decode_iq1_m(p, u);
		break;
	case QT_IQ2_XXS:
		decode_iq2_xxs(p, u);
		break;
	case QT_IQ2_XS:
		decode_iq2_xs(p, u);
		break;
	case QT_IQ2_S:
		decode_iq2_s(p, u);
		break;
	case QT_IQ3_XXS:
		decode_iq3_xxs(p, u);
		break;
	default:
		decode_iq3_s(p, u);
	}
}

/* ---- formats with fewer weights under a d */

/* 32 fifth bits, and those next bytes further. */
PI wide_mask
fifth_bits(const unsigned char *p, size_t next)
{
#ifdef __AVX512F__
	return (uint32_t)dword_at(p) |
	    (uint64_t)(uint32_t)dword_at(p + next) << 32;
#else
	(void)next;
	return bits_at(p);
#endif
}

/* As many pairs of bits as a register has bytes, four in each byte from p on. */
PI wide_i
crumbs_in_order(const unsigned char *p)
{
	/* what is left of a nibble: bits 0, 1 or 2, 3 */
	static const int8_t pair[16] = {
		0, 1, 2, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0
	};
#ifdef __AVX512F__
	const __m512i each = _mm512_set_epi32(0x0f0f0f0f, 0x0e0e0e0e,
	    0x0d0d0d0d, 0x0c0c0c0c, 0x0b0b0b0b, 0x0a0a0a0a, 0x09090909,
	    0x08080808, 0x07070707, 0x06060606, 0x05050505, 0x04040404,
	    0x03030303, 0x02020202, 0x01010101, 0);
	__m512i v = _mm512_shuffle_epi8(in_lanes(load16(p)), each);

	v = _mm512_mask_srli_epi16(v, 0xaaaaaaaa, v, 4);
#else
	const __m256i each = _mm256_set_epi32(0x07070707, 0x06060606,
	    0x05050505, 0x04040404, 0x03030303, 0x02020202, 0x01010101, 0);
	__m256i v = _mm256_shuffle_epi8(in_lanes(load8(p)), each);

	v = _mm256_blend_epi16(v, _mm256_srli_epi16(v, 4), 0xaa);
#endif
	return look_up(v & W(set1_epi32)(0x0c030c03), pair);
}

/*
 * Register k of a group.  Of the two blocks of 32 that a register of 512 bits
 * holds there may be the first alone: then the second is any.
 */
PI wide_i
block_weights(uint32_t type, const unsigned char *p, int k, int two)
{
	const size_t bytes = qwen_traits[type].bytes;
	const size_t next = two ? bytes : 0;
	static const int8_t fp4[16] = {
		16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4
	};

	p += (size_t)(WIDE * k) / qwen_traits[type].len * bytes;
	switch (type) {
	case QT_Q4_0:
		return nibbles(p + 2, next);
	case QT_Q4_1:
		return nibbles(p + 4, next);
	case QT_Q5_0:
		return nibbles(p + 6, next) |
		    where(fifth_bits(p + 2, next), set8(16));
	case QT_Q5_1:
		return nibbles(p + 8, next) |
		    where(fifth_bits(p + 4, next), set8(16));
	case QT_IQ4_NL:
		return look_up(nibbles(p + 2, next), iq4_values);
	case QT_MXFP4:
		return look_up(nibbles(p + 1, next), fp4);
	case QT_NVFP4:
		return look_up(nibbles8(p + 4 + WIDE / 2 * k % 32), fp4);
	case QT_Q1_0:
		return where(bits_at(p + 2 + WIDE / 8 * k % 16), set8(2));
	case QT_Q2_0:
		return crumbs_in_order(p + 2 + WIDE / 4 * k % 16);
	default:
		return join(load32(p + 2), load32(p + 2 + next));
	}
}

/* ---- d, of four rows */

/* f32 of the f16 at the same place in four rows. */
PI __m128
f16x4(const unsigned char *const *w, size_t at)
{
	uint16_t h[8] = { 0 };
	int i;

	for (i = 0; i < 4; i++)
		memcpy(&h[i], w[i] + at, 2);
	return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)h));
}

/* IQ1_M: four bits in each of four words. */
PI __m128
f16_of_parts(const unsigned char *const *w)
{
	uint16_t h[8] = { 0 };
	int i;

	for (i = 0; i < 4; i++) {
		uint64_t x = qword_at(w[i] + 48);

		h[i] = (uint16_t)((x >> 12 & 15) | (x >> 24 & 0xf0) |
		    (x >> 36 & 0xf00) | (x >> 48 & 0xf000));
	}
	return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)h));
}

PI __m128i
bytes4(const unsigned char *const *w, size_t at)
{
	return _mm_setr_epi32(w[0][at], w[1][at], w[2][at], w[3][at]);
}

/* MXFP4: 2^(x - 128), above 252 NaN. */
PI __m128
powers_of_two(__m128i x)
{
	const __m128i one = _mm_set1_epi32(1);
	__m128i v = _mm_slli_epi32(_mm_sub_epi32(x, one), 23);

	v = _mm_blendv_epi8(_mm_sllv_epi32(_mm_set1_epi32(0x200000), x), v,
	    _mm_cmpgt_epi32(x, one));
	return _mm_castsi128_ps(v |
	    _mm_cmpgt_epi32(x, _mm_set1_epi32(252)));
}

/* NVFP4: half of E4M3 without sign, 127 being 0. */
PI __m128
e4m3(__m128i x)
{
	__m128i v = _mm_add_epi32(_mm_slli_epi32(x &= _mm_set1_epi32(127), 20),
	    _mm_set1_epi32(119 << 23));
	__m128 small = _mm_mul_ps(_mm_cvtepi32_ps(x), _mm_set1_ps(0x1p-10f));

	v = _mm_blendv_epi8(_mm_castps_si128(small), v,
	    _mm_cmpgt_epi32(x, _mm_set1_epi32(7)));
	return _mm_castsi128_ps(_mm_andnot_si128(_mm_cmpeq_epi32(x,
	    _mm_set1_epi32(127)), v));
}

/* d number k of a group. */
PI __m128
load_d4(uint32_t type, const unsigned char *const *w, size_t k)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t each = f->by_block ? f->len / f->span : 1;
	const size_t at = k / each * f->bytes + f->d_at;

	if (type == QT_MXFP4)
		return powers_of_two(bytes4(w, at));
	if (type == QT_NVFP4)
		return e4m3(bytes4(w, at + k % each));
	return _mm_mul_ps(type == QT_IQ1_M ? f16_of_parts(w) : f16x4(w, at),
	    _mm_set1_ps(f->d_by));
}

/* Its minimum. */
PI __m128
load_min4(uint32_t type, const unsigned char *const *w, size_t k)
{
	return f16x4(w, k * qwen_traits[type].bytes +
	    qwen_traits[type].d_at + 2);
}

#endif
