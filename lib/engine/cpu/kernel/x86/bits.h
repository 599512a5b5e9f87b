/* SPDX-License-Identifier: ISC */
/* bits.h - unpacking bits, nibbles and scales, for decode.h. */
#ifndef QWEN_KERNEL_BITS_H
#define QWEN_KERNEL_BITS_H

#include "engine/cpu/kernel/formats.h"
#include "engine/cpu/kernel/x86/wide.h"
#include "engine/quant/codebook.h"

#define WIDE ((int)sizeof(wide_i))	/* bytes of a register */
#define GROUP_REGS (QWEN_GROUP / WIDE)

/* 256 weights that share a d. */
struct group {
	wide_i	w[GROUP_REGS];
	__m256i	scale, min;		/* 16 int16, one per 16 weights */
};

KERNEL_INLINE __m128i
load16(const void *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

KERNEL_INLINE __m256i
load32(const void *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

KERNEL_INLINE wide_i
load_wide(const void *p)
{
	wide_i v;

	memcpy(&v, p, sizeof v);
	return v;
}

KERNEL_INLINE uint64_t
qword_at(const void *p)
{
	uint64_t x;

	memcpy(&x, p, 8);
	return x;
}

/* Repeats 16 bytes in each 128-bit lane. */
KERNEL_INLINE wide_i
in_lanes(__m128i v)
{
#ifdef __AVX512F__
	return _mm512_broadcast_i32x4(v);
#else
	return _mm256_broadcastsi128_si256(v);
#endif
}

/* Repeats 32 bytes in each half. */
KERNEL_INLINE wide_i
in_halves(__m256i v)
{
#ifdef __AVX512F__
	return _mm512_broadcast_i64x4(v);
#else
	return v;
#endif
}

KERNEL_INLINE wide_i
set8(int x)
{
	return MM(set1_epi8)((char)x);
}

/* Joins a and b in a register if it has room for b; else returns a. */
KERNEL_INLINE wide_i
join(__m256i a, __m256i b)
{
#ifdef __AVX512F__
	return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
#else
	(void)b;
	return a;
#endif
}

/* Returns half h of v, or all of it if that is 256 bits. */
KERNEL_INLINE __m256i
half_of(wide_i v, size_t h)
{
#ifdef __AVX512F__
	return h == 0 ? _mm512_castsi512_si256(v) :
	    _mm512_extracti64x4_epi64(v, 1);
#else
	(void)h;
	return v;
#endif
}

/* Returns the dwords of v, those of the halves added up. */
KERNEL_INLINE __m256i
in_256(wide_i v)
{
	return WIDE == 32 ? half_of(v, 0) :
	    _mm256_add_epi32(half_of(v, 0), half_of(v, 1));
}

/* Looks up indices below 16 in a table. */
KERNEL_INLINE wide_i
look_up(wide_i index, const int8_t *table)
{
	return MM(shuffle_epi8)(in_lanes(load16(table)), index);
}

/* ---- one bit per weight */

#ifdef __AVX512F__
typedef __mmask64 wide_mask;
#else
typedef __m256i wide_mask;	/* bytes of 0 or -1 */
#endif

/* Loads WIDE / 8 bytes at p, each repeated eight times. */
KERNEL_INLINE wide_i
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

/* Loads WIDE bits at p as a mask. */
KERNEL_INLINE wide_mask
bits_at(const void *p)
{
#ifdef __AVX512F__
	return qword_at(p);
#else
	const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);

	return _mm256_cmpeq_epi8(each8(p) & bit, bit);
#endif
}

/* Returns v where the bit is set, else 0. */
KERNEL_INLINE wide_i
keep_where(wide_mask m, wide_i v)
{
#ifdef __AVX512F__
	return _mm512_maskz_mov_epi8(m, v);
#else
	return m & v;
#endif
}

/* Returns bias + v, and bias - v where the bit is set. */
KERNEL_INLINE wide_i
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
 * Unpacks the 32 nibbles of 16 bytes, low ones first; with 512 bits also those
 * of the 16 bytes `next' bytes further.
 */
KERNEL_INLINE wide_i
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

/* The same for blocks of eight bytes: 16 weights each. */
KERNEL_INLINE wide_i
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
 * Unpacks register k of a group of pairs of bits in the layout of Q2_K: 32
 * bytes hold 128 weights, the first 32 in the lowest bits.
 */
KERNEL_INLINE wide_i
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

/* Repeats each of eight int16 twice. */
KERNEL_INLINE __m256i
twice(__m128i v)
{
	return _mm256_set_m128i(_mm_unpackhi_epi16(v, v),
	    _mm_unpacklo_epi16(v, v));
}

/* Unpacks the nibbles of eight bytes in order, low before high. */
KERNEL_INLINE __m128i
nibbles_of(__m128i v)
{
	const __m128i m4 = _mm_set1_epi8(15);

	return _mm_unpacklo_epi8(v & m4, _mm_srli_epi16(v, 4) & m4);
}

KERNEL_INLINE __m128i
load4(const void *p)
{
	return _mm_cvtsi32_si128(dword_at(p));
}

KERNEL_INLINE __m128i
load8(const void *p)
{
	return _mm_loadl_epi64((const __m128i *)p);
}

/* Returns 2 c + 1. */
KERNEL_INLINE __m256i
odd(__m256i c)
{
	return _mm256_add_epi16(_mm256_add_epi16(c, c), _mm256_set1_epi16(1));
}

#endif
