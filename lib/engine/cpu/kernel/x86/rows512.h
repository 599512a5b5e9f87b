/* SPDX-License-Identifier: ISC */
/* rows512.h - the functions of rows4.h for 512-bit registers. */
#ifndef QWEN_X86_ROWS512_H
#define QWEN_X86_ROWS512_H

#include "engine/cpu/kernel/x86/rows4.h"

/* Returns the sum of the four 128-bit lanes. */
KERNEL_INLINE __m128i
add_lanes(__m512i v)
{
	__m256i a = _mm256_add_epi32(_mm512_castsi512_si256(v),
	    _mm512_extracti64x4_epi64(v, 1));

	return _mm_add_epi32(_mm256_castsi256_si128(a),
	    _mm256_extracti128_si256(a, 1));
}

/* Returns the sums of four vectors, one per lane. */
KERNEL_INLINE __m128i
sum16x4(const __m512i *v)
{
	__m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
	    _mm512_unpackhi_epi32(v[0], v[1]));
	__m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
	    _mm512_unpackhi_epi32(v[2], v[3]));

	return add_lanes(_mm512_add_epi32(_mm512_unpacklo_epi64(a, b),
	    _mm512_unpackhi_epi64(a, b)));
}

/*
 * Multiplies two rows u and v of 256 weights by activations q.  Sums of four
 * products must fit in 16 bits.  The sums of both rows are packed into one
 * vector, which VPDPWSSD multiplies with the scales of both. at[k] has, for 64
 * columns, the scale indices of each 128-bit lane: u's index four times, then
 * v's.  In the result, two dwords of each lane are sums of u, two of v.
 */
KERNEL_INLINE __m512i
dot_two(const __m512i *u, const __m512i *v, const __m512i *q, __m512i scale,
    const __m512i *at)
{
	const __m512i zero = _mm512_setzero_si512();
	__m512i sum[2] = { zero, zero };
	int k;

	UNROLL
	for (k = 0; k < 4; k++)
		sum[k % 2] = _mm512_dpwssd_epi32(sum[k % 2],
		    _mm512_packs_epi32(_mm512_dpbusd_epi32(zero, u[k], q[k]),
		    _mm512_dpbusd_epi32(zero, v[k], q[k])),
		    _mm512_permutexvar_epi16(at[k], scale));
	return _mm512_add_epi32(sum[0], sum[1]);
}

/*
 * Returns indices for dot_two: those of u per lane, and v's, which are
 * `further' more.
 */
KERNEL_INLINE __m512i
lane_places(int a, int b, int c, int d, int further)
{
	const long long each = 0x0001000100010001;

	return _mm512_setr_epi64(a * each, (a + further) * each, b * each,
	    (b + further) * each, c * each, (c + further) * each, d * each,
	    (d + further) * each);
}

/*
 * Joins eight dwords of each row, whose totals are the sums, in the layout of
 * dot_two().
 */
KERNEL_INLINE __m256i
rows_beside(__m256i u, __m256i v)
{
	return _mm256_add_epi32(_mm256_unpacklo_epi64(u, v),
	    _mm256_unpackhi_epi64(u, v));
}

/* Joins two results of dot_two(): each lane has the four sums. */
KERNEL_INLINE __m512i
join_two(__m512i x, __m512i y)
{
	__m512 a = _mm512_castsi512_ps(x), b = _mm512_castsi512_ps(y);

	return _mm512_add_epi32(
	    _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)),
	    _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd)));
}

/*
 * Returns the sums of the 128-bit lanes of four vectors: dword i of each lane
 * has that of vector i.
 */
KERNEL_INLINE __m512i
sums_by_lane(const __m512i *v)
{
	__m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
	    _mm512_unpackhi_epi32(v[0], v[1]));
	__m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
	    _mm512_unpackhi_epi32(v[2], v[3]));

	return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b),
	    _mm512_unpackhi_epi64(a, b));
}

/* Returns weights as unsigned bytes, for VPDPBUSD. */
KERNEL_INLINE __m512i
unsigned_weights(uint32_t type, __m512i w)
{
	if (qwen_traits[type].bias == 128)
		w ^= set8(0x80);
	return w;
}

/* ---- 256 weights per d */

/*
 * sums_by_lane() gives sums of 16 products, so one multiplication with their
 * scales suffices.  The bias is subtracted with the sums of the activations.
 */
KERNEL_INLINE __m256i
dot_super(uint32_t type, const struct group *u, const struct qwen_q8 *x)
{
	/* order of sums_by_lane: dword k of lane c is 4k + c */
	const __m256i at16 = _mm256_setr_epi16(0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
	    10, 14, 3, 7, 11, 15);
	const __m512i at32 = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
	    10, 14, 3, 7, 11, 15);
	const int bias = qwen_traits[type].bias;
	__m256i sa = _mm256_mullo_epi16(u->scale, twice(load16(x->a)));
	__m512i v[4], off;
	int k;

	UNROLL
	for (k = 0; k < 4; k++)
		v[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(),
		    unsigned_weights(type, u->w[k]),
		    _mm512_loadu_si512(x->q + 64 * k));
	v[0] = sums_by_lane(v);
	if (bias != 0) {		/* off6 is -32 times the sum */
		off = _mm512_permutexvar_epi32(at32,
		    _mm512_loadu_si512(x->off6));
		off = bias < 32 ? _mm512_srai_epi32(off,
		    (unsigned)__builtin_ctz(32u / (unsigned)bias)) :
		    _mm512_slli_epi32(off,
		    (unsigned)__builtin_ctz((unsigned)bias / 32u));
		v[0] = _mm512_add_epi32(v[0], off);
	}
	v[0] = _mm512_mullo_epi32(v[0], _mm512_cvtepi16_epi32(
	    _mm256_permutexvar_epi16(at16, sa)));
	return _mm256_add_epi32(_mm512_castsi512_si256(v[0]),
	    _mm512_extracti64x4_epi64(v[0], 1));
}

/* ---- fewer weights per d */

/* Returns four of eight int16, from index 4k on, each in its own lane. */
KERNEL_INLINE __m512i
in_lanes4(const int16_t *p, size_t k)
{
	const __m512i at = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
	    2, 3, 3, 3, 3);

	return _mm512_permutexvar_epi32(at, _mm512_castsi128_si512(
	    _mm_cvtepi16_epi32(load8(p + 4 * k))));
}

/*
 * Returns, for four blocks of 32 columns, a times their sums minus the bias;
 * each lane has four rows.
 */
KERNEL_INLINE __m512i
sums_of_4(uint32_t type, __m512i first, __m512i second,
    const struct qwen_q8 *x, size_t k)
{
	__m512i v = _mm512_add_epi32(
	    _mm512_shuffle_i32x4(first, second, 0x88),
	    _mm512_shuffle_i32x4(first, second, 0xdd));

	v = _mm512_mullo_epi32(v, in_lanes4(x->a, k));
	if (qwen_traits[type].bias == 0)
		return v;
	return _mm512_sub_epi32(v, _mm512_slli_epi32(in_lanes4(x->asum, k),
	    (unsigned)__builtin_ctz((unsigned)qwen_traits[type].bias)));
}

KERNEL_INLINE __m128
lane_f(__m512 v, size_t i)
{
	return i == 0 ? _mm512_castps512_ps128(v) :
	    i == 1 ? _mm512_extractf32x4_ps(v, 1) :
	    i == 2 ? _mm512_extractf32x4_ps(v, 2) :
	    _mm512_extractf32x4_ps(v, 3);
}

/* Computes the products of four rows with 64 columns, summed by lanes. */
KERNEL_INLINE void
products(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, size_t k, int nt, __m512i *by_lane)
{
	__m512i v[4][4];
	size_t i;
	int j;

	for (i = 0; i < 4; i++) {
		__m512i u = unsigned_weights(type,
		    block_weights(type, w[i], (int)k));

		for (j = 0; j < nt; j++)
			v[j][i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(),
			    u, _mm512_loadu_si512(x[j]->q + 64 * k));
	}
	for (j = 0; j < nt; j++)
		by_lane[j] = sums_by_lane(v[j]);
}

/* Adds 64 columns with a d per 16: one lane each. */
KERNEL_INLINE __m128
add_16s(uint32_t type, const unsigned char *const *w, __m512i v,
    const struct qwen_q8 *x, size_t k, __m128 part)
{
	const __m512i at = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1,
	    1, 1, 1, 1, 1);
	__m512i a = _mm512_permutexvar_epi32(at, _mm512_castsi128_si512(
	    _mm_cvtepi16_epi32(load4(x->a + 2 * k))));
	__m512 f;
	size_t i;

	v = _mm512_sub_epi32(_mm512_mullo_epi32(v, a), _mm512_slli_epi32(
	    in_lanes4(x->asum16, k),
	    (unsigned)__builtin_ctz((unsigned)qwen_traits[type].bias)));
	f = _mm512_cvtepi32_ps(v);
	UNROLL
	for (i = 0; i < 4; i++)
		part = _mm_fmadd_ps(load_d4(type, w, 4 * k + i), lane_f(f, i),
		    part);
	return part;
}

/* Adds sums with a d per 64 or 128 columns. */
KERNEL_INLINE __m128
add_long(uint32_t type, const unsigned char *const *w, size_t k, __m512i v,
    __m128 part)
{
	__m128i lo, hi;

	v = _mm512_add_epi32(v, _mm512_shuffle_i32x4(v, v, 0xb1));
	lo = _mm512_castsi512_si128(v);
	hi = _mm512_extracti32x4_epi32(v, 2);
	if (qwen_traits[type].span == 128)
		return _mm_fmadd_ps(load_d4(type, w, k), _mm_cvtepi32_ps(
		    _mm_add_epi32(lo, hi)), part);
	part = _mm_fmadd_ps(load_d4(type, w, 2 * k), _mm_cvtepi32_ps(lo),
	    part);
	return _mm_fmadd_ps(load_d4(type, w, 2 * k + 1), _mm_cvtepi32_ps(hi),
	    part);
}

/*
 * Adds columns 128k to 128k + 127 of a token; first and second have the
 * products.
 */
KERNEL_INLINE __m128
add_128(uint32_t type, const unsigned char *const *w, __m512i first,
    __m512i second, const struct qwen_q8 *x, size_t k, __m128 part)
{
	__m512i s;
	__m512 f;
	size_t i;

	if (qwen_traits[type].span == 16) {
		part = add_16s(type, w, first, x, 2 * k, part);
		return add_16s(type, w, second, x, 2 * k + 1, part);
	}
	s = sums_of_4(type, first, second, x, k);
	if (qwen_traits[type].span > 32)
		return add_long(type, w, k, s, part);
	f = _mm512_cvtepi32_ps(s);
	UNROLL
	for (i = 0; i < 4; i++)
		part = _mm_fmadd_ps(load_d4(type, w, 4 * k + i), lane_f(f, i),
		    part);
	return part;
}

KERNEL_INLINE void
block_group(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, int nt, __m128 *acc)
{
	__m512i v[2][4];
	__m128 part[4];
	size_t k;
	int j;

	for (j = 0; j < nt; j++)
		part[j] = _mm_setzero_ps();
	UNROLL
	for (k = 0; k < 2; k++) {
		products(type, w, x, 2 * k, nt, v[0]);
		products(type, w, x, 2 * k + 1, nt, v[1]);
		for (j = 0; j < nt; j++)
			part[j] = add_128(type, w, v[0][j], v[1][j], x[j], k,
			    part[j]);
	}
	for (j = 0; j < nt; j++)
		acc[j] = _mm_fmadd_ps(_mm_set1_ps(x[j]->d), part[j], acc[j]);
}

#endif
