/* SPDX-License-Identifier: ISC */
/*
 * rows4.h - rows in the file's layout times 8-bit activations, four rows and up
 * to four tokens at a time, in registers of 256 or of 512 bits.
 *
 * Sums of integers are exact, so their order is free; the float step of a block
 * is that of the scalar definition.
 */
#ifndef QWEN_X86_ROWS4_H
#define QWEN_X86_ROWS4_H

#include "engine/cpu/kernel/x86/decode.h"

/*
 * Returns the sums of the 128-bit lanes of four vectors: dword i of each lane
 * has that of vector i.  Does not use VPHADDD, which takes three or four
 * operations on every processor.
 */
KERNEL_INLINE wide_i
sums_by_lane(const wide_i *v)
{
	wide_i a = MM(add_epi32)(MM(unpacklo_epi32)(v[0], v[1]),
	    MM(unpackhi_epi32)(v[0], v[1]));
	wide_i b = MM(add_epi32)(MM(unpacklo_epi32)(v[2], v[3]),
	    MM(unpackhi_epi32)(v[2], v[3]));

	return MM(add_epi32)(MM(unpacklo_epi64)(a, b),
	    MM(unpackhi_epi64)(a, b));
}

/* The same in 256 bits, whatever the width of registers. */
KERNEL_INLINE __m256i
rows_by_half(const __m256i *v)
{
	__m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]),
	    _mm256_unpackhi_epi32(v[0], v[1]));
	__m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]),
	    _mm256_unpackhi_epi32(v[2], v[3]));

	return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b),
	    _mm256_unpackhi_epi64(a, b));
}

/* Returns the sum of both 128-bit lanes. */
KERNEL_INLINE __m128i
add_halves(__m256i v)
{
	return _mm_add_epi32(_mm256_castsi256_si128(v),
	    _mm256_extracti128_si256(v, 1));
}

/* Adds d times the sums of four vectors, one per row, to acc. */
KERNEL_INLINE __m128
add_sums(__m128 acc, __m128 d, const __m256i *sum)
{
	return _mm_fmadd_ps(d, _mm_cvtepi32_ps(add_halves(rows_by_half(sum))),
	    acc);
}

/* Prefetch distance in bytes. */
#define AHEAD 8192

/*
 * Returns the rows to prefetch while n rows from r on are multiplied: enough
 * tiles of n rows ahead.  After the last row: the rows that come next if known,
 * else the memory after it.
 */
KERNEL_INLINE const unsigned char *
ahead_of(const struct qwen_matmul *p, size_t n, size_t r)
{
	size_t tile = n * p->row_bytes, all = (p->r1 - p->r0) * p->row_bytes;
	size_t at = (r - p->r0) * p->row_bytes + (AHEAD + tile - 1) / tile *
	    tile;

	if (p->next != NULL && at >= all)
		return p->next + (at - all);
	return p->w + p->r0 * p->row_bytes + at;
}

/*
 * Prefetches n bytes from p to the second-level cache; the first-level cache
 * can have fewer lines pending.  Rows are read four at a time, which the
 * hardware does not detect as a stream; prefetched in memory order, they arrive
 * as one.  A prefetch never faults.
 */
KERNEL_INLINE void
prefetch(const unsigned char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i += 64)
		_mm_prefetch((const char *)p + i, _MM_HINT_T1);
}

/* ---- products of bytes */

/*
 * The bias that sums of products include.  VPDPBUSD multiplies any unsigned
 * bytes; VPMADDUBSW needs one factor of 7 bits, so 8-bit weights stay signed.
 */
#ifdef __AVX512VNNI__
#define ROW_BIAS(type) qwen_traits[type].bias
#else
#define ROW_BIAS(type) (qwen_traits[type].bias & 127)
#endif

/*
 * Returns sums of four products.  Of signed weights, VPMADDUBSW takes the
 * magnitude, with the sign moved to the activation; at most 2 * 128 * 127.
 */
KERNEL_INLINE wide_i
dot4(uint32_t type, wide_i w, wide_i q)
{
#ifdef __AVX512VNNI__
	if (qwen_traits[type].bias == 128)
		w ^= set8(0x80);
	return _mm512_dpbusd_epi32(set8(0), w, q);
#else
	if (qwen_traits[type].bias == 128) {
		q = _mm256_sign_epi8(q, w);
		w = _mm256_abs_epi8(w);
	}
	return _mm256_madd_epi16(_mm256_maddubs_epi16(w, q),
	    _mm256_set1_epi16(1));
#endif
}

/* Returns sum + a * b for pairs of int16. */
KERNEL_INLINE wide_i
add_products(wide_i sum, wide_i a, wide_i b)
{
#ifdef __AVX512VNNI__
	return _mm512_dpwssd_epi32(sum, a, b);
#else
	return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
#endif
}

#include "engine/cpu/kernel/x86/rows_k23.h"
#include "engine/cpu/kernel/x86/rows_nibble.h"

/*
 * ---- formats: adds blocks of four rows, from w on, and of nt tokens to acc,
 * prefetching from ahead on meanwhile
 */

/* Returns, for register k of a group, the int16 of each 16 weights. */
KERNEL_INLINE wide_i
scales_at(__m256i scale, int k)
{
#ifdef __AVX512F__
	const __m512i lane = _mm512_setr_epi64(0, 0, 0x0001000100010001,
	    0x0001000100010001, 0x0002000200020002, 0x0002000200020002,
	    0x0003000300030003, 0x0003000300030003);

	return _mm512_permutexvar_epi16(_mm512_add_epi16(lane,
	    _mm512_set1_epi16((short)(4 * k))),
	    _mm512_castsi256_si512(scale));
#else
	const int at = 4 * (k % 4);
	__m256i half = _mm256_permute2x128_si256(scale, scale,
	    k < 4 ? 0x00 : 0x11);

	return _mm256_shuffle_epi8(half, _mm256_set_m128i(
	    _mm_set1_epi16((short)((at + 3) << 8 | (at + 2))),
	    _mm_set1_epi16((short)((at + 1) << 8 | at))));
#endif
}

/* Returns the excess of sums of 256 products due to the bias. */
KERNEL_INLINE __m256i
bias_sum(uint32_t type, __m256i scale, const struct qwen_q8 *x)
{
	return _mm256_mullo_epi32(_mm256_madd_epi16(scale, load32(x->asum16)),
	    _mm256_set1_epi32(ROW_BIAS(type)));
}

/*
 * For formats with 256 weights per d: returns eight int32 whose total is a
 * block's sum.
 */
KERNEL_INLINE __m256i
dot_super(uint32_t type, const struct group *u, const struct qwen_q8 *x)
{
	__m256i scale = _mm256_mullo_epi16(u->scale, twice(load16(x->a)));
	wide_i sum = set8(0);
	int k;

	UNROLL
	for (k = 0; k < GROUP_REGS; k++)
		sum = add_products(sum, MM(maddubs_epi16)(u->w[k],
		    load_wide(x->q + WIDE * k)), scales_at(scale, k));
	return _mm256_sub_epi32(in_256(sum), bias_sum(type, u->scale, x));
}

KERNEL_INLINE void
sums_super(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n, int nt, const unsigned char *ahead, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	size_t b, i;
	int j;

	for (b = 0; b < n; b++) {
		__m128 d = load_d4(type, w, 0), dmin = d;
		__m256i sum[4][4], min[4][4];
		struct group u;

		if (f->has_min)
			dmin = f16x4(w, f->d_at + 2);
		for (i = 0; i < 4; i++) {
			prefetch(ahead + (4 * b + i) * f->bytes, f->bytes);
			decode(type, w[i], &u);
			for (j = 0; j < nt; j++) {
				sum[j][i] = dot_super(type, &u, x[j] + b);
				if (f->has_min)
					min[j][i] = _mm256_madd_epi16(u.min,
					    load32(x[j][b].asum16));
			}
			w[i] += f->bytes;
		}
		for (j = 0; j < nt; j++) {
			__m128 by = _mm_set1_ps(x[j][b].d);

			acc[j] = add_sums(acc[j], _mm_mul_ps(d, by), sum[j]);
			if (f->has_min)
				acc[j] = add_sums(acc[j], _mm_mul_ps(
				    -dmin, by), min[j]);
		}
	}
}

/* ---- fewer weights per d */

/* The weights whose sum a lane has: one scale, or less than its weights. */
KERNEL_INLINE int
lane_weights(uint32_t type)
{
	return qwen_traits[type].span == 16 ? 16 : 32;
}

/* Returns a register with the sums of the pairs of lanes of a, then of b. */
KERNEL_INLINE wide_i
join_lanes(wide_i a, wide_i b)
{
#ifdef __AVX512F__
	return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88),
	    _mm512_shuffle_i32x4(a, b, 0xdd));
#else
	return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
	    _mm256_permute2x128_si256(a, b, 0x31));
#endif
}

KERNEL_INLINE __m128i
lane(wide_i v, int i)
{
	__m256i half = half_of(v, (size_t)i / 2);

	return i % 2 == 0 ? _mm256_castsi256_si128(half) :
	    _mm256_extracti128_si256(half, 1);
}

/* Returns int16 number i / each from p on in the dwords of lane i. */
KERNEL_INLINE wide_i
lane_numbers(const int16_t *p, int each)
{
#ifdef __AVX512F__
	const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
	    2, 3, 3, 3, 3);

	return _mm512_permutexvar_epi32(_mm512_srli_epi32(lane,
	    (unsigned)each / 2), _mm512_castsi128_si512(
	    _mm_cvtepi16_epi32(load8(p))));
#else
	return each == 2 ? _mm256_set1_epi32(*p) :
	    _mm256_srai_epi32(two_int16(p, 0), 16);
#endif
}

/*
 * Adds the lanes of register k of the group's sums to part, minus the bias.  If
 * a d has several lanes, they are collected in *run.
 */
KERNEL_INLINE __m128
add_lanes(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *x, int k, wide_i sum, __m128i *run, __m128 part)
{
	const int n = lane_weights(type), span = (int)qwen_traits[type].span;
	const int first = WIDE / 16 * k;	/* lane of the group */
	int i, at;

	sum = MM(mullo_epi32)(sum, lane_numbers(x->a + first * n / 32,
	    32 / n));
	if (ROW_BIAS(type) != 0)
		sum = MM(sub_epi32)(sum, MM(slli_epi32)(lane_numbers(
		    (n == 16 ? x->asum16 : x->asum) + first, 1),
		    __builtin_ctz((unsigned)ROW_BIAS(type))));
	UNROLL
	for (i = 0; i < WIDE / 16; i++) {
		at = n * (first + i);
		*run = at % span == 0 ? lane(sum, i) :
		    _mm_add_epi32(*run, lane(sum, i));
		if ((at + n) % span == 0)
			part = _mm_fmadd_ps(load_d4(type, w, (size_t)(at /
			    span)), _mm_cvtepi32_ps(*run), part);
	}
	return part;
}

/* Adds 256 weights, which share the activations' scale, to acc. */
KERNEL_INLINE void
block_group(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, int nt, __m128 *acc)
{
	const int regs = lane_weights(type) / 16;
	__m128i run[4];
	__m128 part[4];
	wide_i v[4][4], sum[2][4];
	size_t i;
	int h, j, k;

	for (j = 0; j < nt; j++)
		part[j] = _mm_setzero_ps();
	UNROLL
	for (k = 0; k < GROUP_REGS / regs; k++) {
		UNROLL
		for (h = 0; h < regs; h++) {
			const int r = regs * k + h;

			for (i = 0; i < 4; i++) {
				wide_i u = block_weights(type, w[i], r);

				for (j = 0; j < nt; j++)
					v[j][i] = dot4(type, u,
					    load_wide(x[j]->q + WIDE * r));
			}
			for (j = 0; j < nt; j++)
				sum[h][j] = sums_by_lane(v[j]);
		}
		for (j = 0; j < nt; j++)
			part[j] = add_lanes(type, w, x[j], k, regs == 1 ?
			    sum[0][j] : join_lanes(sum[0][j], sum[1][j]),
			    &run[j], part[j]);
	}
	for (j = 0; j < nt; j++)
		acc[j] = _mm_fmadd_ps(_mm_set1_ps(x[j]->d), part[j], acc[j]);
}

/* Returns rest with the last n bytes of a row, padded with zeros. */
KERNEL_INLINE const unsigned char *
filled_up(const unsigned char *w, size_t n, unsigned char *rest, size_t size)
{
	memset(rest, 0, size);
	return memcpy(rest, w, n);
}

KERNEL_INLINE void
sums_block(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, size_t n_in, int nt,
    const unsigned char *ahead, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t bytes = QWEN_GROUP / f->len * f->bytes;
	unsigned char rest[4][QWEN_GROUP / 32 * 34];
	const unsigned char *p[4];
	const struct qwen_q8 *y[4];
	size_t b, i, n = n_in / f->len * f->bytes;
	int j;

	for (b = 0; b * bytes < n; b++) {
		prefetch(ahead + 4 * b * bytes, 4 * bytes);
		for (i = 0; i < 4; i++) {
			p[i] = w[i] + b * bytes;
			if (n - b * bytes < bytes)
				p[i] = filled_up(p[i], n - b * bytes, rest[i],
				    sizeof rest[i]);
		}
		for (j = 0; j < nt; j++)
			y[j] = x[j] + b;
		if (in_nibbles(type))
			nibble_group(type, p, y, nt, acc);
		else
			block_group(type, p, y, nt, acc);
	}
}

KERNEL_INLINE void
sums_any(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, const unsigned char *ahead, __m128 *acc)
{
	if (qwen_traits[type].by_block)
		sums_block(type, w, x, n_in, nt, ahead, acc);
	else if (type == QT_Q2_K || type == QT_Q3_K)
		sums_k23(type, w, x, n_in, nt, ahead, acc);
	else if (type == QT_IQ4_XS)
		sums_iq4_xs(w, x, n_in, nt, ahead, acc);
	else
		sums_super(type, w, x, n_in / QWEN_GROUP, nt, ahead, acc);
}

#endif
