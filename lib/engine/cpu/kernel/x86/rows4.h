/* SPDX-License-Identifier: ISC */
/*
 * rows4.h - rows in the file's layout times 8-bit activations, four rows and up
 * to four tokens at a time: code shared by AVX2 and AVX-512.
 *
 * Sums of integers are exact, so their order is free; the float step of a block
 * is that of the scalar definition. rows256.h and rows512.h define dot_super()
 * and block_group().
 */
#ifndef QWEN_X86_ROWS4_H
#define QWEN_X86_ROWS4_H

#include "engine/cpu/kernel/x86/decode.h"

/*
 * Returns the sums of four vectors, one per lane.  Does not use VPHADDD, which
 * takes three or four operations on every processor.
 */
KERNEL_INLINE __m128i
sum8x4(const __m256i *v)
{
	__m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]),
	    _mm256_unpackhi_epi32(v[0], v[1]));
	__m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]),
	    _mm256_unpackhi_epi32(v[2], v[3]));

	a = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b),
	    _mm256_unpackhi_epi64(a, b));
	return _mm_add_epi32(_mm256_castsi256_si128(a),
	    _mm256_extracti128_si256(a, 1));
}

KERNEL_INLINE __m128
add_sums(__m128 acc, __m128 d, const __m256i *sum)
{
	return _mm_fmadd_ps(d, _mm_cvtepi32_ps(sum8x4(sum)), acc);
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

#include "engine/cpu/kernel/x86/rows_k23.h"
#include "engine/cpu/kernel/x86/rows_nibble.h"

/*
 * ---- formats: adds blocks of four rows, from w on, and of nt tokens to acc,
 * prefetching from ahead on meanwhile
 */

/*
 * For formats with 256 weights per d: returns eight int32 whose total is a
 * block's sum.
 */
KERNEL_INLINE __m256i dot_super(uint32_t type, const struct group *u,
    const struct qwen_q8 *x);

/* Returns the excess of dot_super's numbers due to the bias. */
KERNEL_INLINE __m256i
bias_sum(uint32_t type, const struct group *u, const struct qwen_q8 *x)
{
	__m256i v = _mm256_madd_epi16(u->scale,
	    _mm256_loadu_si256((const __m256i *)x->asum16));

	return _mm256_mullo_epi32(v,
	    _mm256_set1_epi32(qwen_traits[type].bias));
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

/*
 * For formats with fewer weights per d: adds 256 weights, which share the
 * activations' scale, to acc.
 */
KERNEL_INLINE void block_group(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, int nt, __m128 *acc);

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
