/* SPDX-License-Identifier: ISC */
/*
 * rows_k45.h - four rows by up to four tokens of Q4_K and Q5_K, AVX-512.
 *
 * The headers of four rows are unpacked together, one row per 128-bit lane.  64
 * bytes of nibbles hold sub-blocks 0 and 2 in the lower nibbles, 1 and 3 in the
 * upper ones.  So activations are brought into this order once per block.
 */
#ifndef QWEN_X86_ROWS_K45_H
#define QWEN_X86_ROWS_K45_H

#include "engine/cpu/kernel/x86/rows_two.h"

/* Headers of four rows: scales and minimums as int16, eight per lane. */
struct row_heads {
	__m512i	scale, min;
	__m128	d, dmin;
};

KERNEL_INLINE void
read_heads(const unsigned char *const *w, struct row_heads *h)
{
	/* dwords of scales 0-3, 4-7, minimums 0-3, 4-7 of each row */
	const __m512i lo = _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 6, 7, 12,
	    13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
	const __m512i hi = _mm512_broadcast_i32x4(_mm_setr_epi8(-1, -1, -1, -1,
	    4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
	const __m512i shift = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0, 0,
	    4));
	const __m512i mask = _mm512_broadcast_i32x4(_mm_setr_epi32(0x3f3f3f3f,
	    0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
	const __m512i first = _mm512_broadcast_i32x4(_mm_setr_epi8(0, -1, 1,
	    -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1, 7, -1));
	const __m512i second = _mm512_broadcast_i32x4(_mm_setr_epi8(8, -1, 9,
	    -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15, -1));
	const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0,
	    0, 0, 0, 0, 0, 0);
	const __m128i halves = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6,
	    7, 10, 11, 14, 15);
	__m512i v = _mm512_castsi128_si512(_mm_loadu_si128(
	    (const __m128i *)w[0])), s;
	__m256 d;

	v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)w[1]), 1);
	v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)w[2]), 2);
	v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)w[3]), 3);
	s = _mm512_and_si512(_mm512_srlv_epi32(_mm512_shuffle_epi8(v, lo),
	    shift), mask);
	s = _mm512_or_si512(s, _mm512_and_si512(_mm512_srli_epi32(
	    _mm512_shuffle_epi8(v, hi), 2), _mm512_set1_epi32(0x30303030)));
	h->scale = _mm512_shuffle_epi8(s, first);
	h->min = _mm512_shuffle_epi8(s, second);
	d = _mm256_cvtph_ps(_mm_shuffle_epi8(_mm512_castsi512_si128(
	    _mm512_permutexvar_epi32(dwords, v)), halves));
	h->d = _mm256_castps256_ps128(d);
	h->dmin = _mm256_extractf128_ps(d, 1);
}

/* Loads the activations of a block in the order of the nibbles. */
KERNEL_INLINE void
order_acts(const struct qwen_q8 *x, __m512i *q)
{
#define PAIR(lo, hi) _mm512_inserti64x4(_mm512_castsi256_si512(		\
	_mm256_load_si256((const __m256i *)(x->q + 32 * (lo)))),	\
	_mm256_load_si256((const __m256i *)(x->q + 32 * (hi))), 1)
	q[0] = PAIR(0, 2);
	q[1] = PAIR(1, 3);
	q[2] = PAIR(4, 6);
	q[3] = PAIR(5, 7);
#undef PAIR
}

/* Adds bits lo and hi of the 32 bytes as a fifth bit to the halves of n. */
KERNEL_INLINE __m512i
fifth_bit(__m512i n, __m512i bits, int lo, int hi)
{
	const __m512i which = _mm512_inserti64x4(_mm512_castsi256_si512(
	    _mm256_set1_epi8((char)(1 << lo))),
	    _mm256_set1_epi8((char)(1 << hi)), 1);

	return _mm512_mask_add_epi8(n, _mm512_test_epi8_mask(bits, which), n,
	    _mm512_set1_epi8(16));
}

/* Adds the fifth bits of Q5_K to the four registers of a row. */
KERNEL_INLINE void
add_fifth(const unsigned char *w, __m512i *n)
{
	__m512i bits = _mm512_broadcast_i64x4(_mm256_loadu_si256(
	    (const __m256i *)(w + 16)));

	n[0] = fifth_bit(n[0], bits, 0, 2);
	n[1] = fifth_bit(n[1], bits, 1, 3);
	n[2] = fifth_bit(n[2], bits, 4, 6);
	n[3] = fifth_bit(n[3], bits, 5, 7);
}

/*
 * Returns the offset of the nibbles in a block; Q5_K has fifth bits before
 * them.
 */
KERNEL_INLINE size_t
nibbles_at(uint32_t type)
{
	return type == QT_Q5_K ? 48 : 16;
}

/* Unpacks the 256 weights of a row's block, in the order of the nibbles. */
KERNEL_INLINE void
weights_k4(uint32_t type, const unsigned char *w, __m512i *n)
{
	const __m512i m4 = _mm512_set1_epi8(15);
	__m512i a = _mm512_loadu_si512(w + nibbles_at(type));
	__m512i b = _mm512_loadu_si512(w + nibbles_at(type) + 64);

	n[0] = _mm512_and_si512(a, m4);
	n[1] = _mm512_and_si512(_mm512_srli_epi16(a, 4), m4);
	n[2] = _mm512_and_si512(b, m4);
	n[3] = _mm512_and_si512(_mm512_srli_epi16(b, 4), m4);
	if (type == QT_Q5_K)
		add_fifth(w, n);
}

/* Sets the indices of the scales of rows r and r + 1 in the headers. */
KERNEL_INLINE void
scales_k45(int r, __m512i *at)
{
	const int s = 8 * r;

	at[0] = lane_places(s, s, s + 2, s + 2, 8);
	at[1] = lane_places(s + 1, s + 1, s + 3, s + 3, 8);
	at[2] = lane_places(s + 4, s + 4, s + 6, s + 6, 8);
	at[3] = lane_places(s + 5, s + 5, s + 7, s + 7, 8);
}

/* Returns the sums of the four 128-bit lanes, one per dword. */
KERNEL_INLINE __m128i
sum_lanes(__m512i v)
{
	const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0,
	    0, 0, 0, 0, 0, 0);

	v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, 0x4e));
	v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, 0xb1));
	return _mm512_castsi512_si128(_mm512_permutexvar_epi32(dwords, v));
}

KERNEL_INLINE __m128
add_block(__m128 acc, const struct row_heads *h, __m512i sum,
    const struct qwen_q8 *x)
{
	__m128 d = _mm_set1_ps(x->d);
	__m512i min = _mm512_madd_epi16(h->min, _mm512_broadcast_i32x4(
	    _mm_load_si128((const __m128i *)x->asum)));

	acc = _mm_fmadd_ps(_mm_mul_ps(h->d, d),
	    _mm_cvtepi32_ps(add_halves(in_256(sum))), acc);
	return _mm_fnmadd_ps(_mm_mul_ps(h->dmin, d),
	    _mm_cvtepi32_ps(sum_lanes(min)), acc);
}

/* plain: activations have no factors, so all tokens share the scales. */
KERNEL_INLINE void
sums_k45(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n, int nt, int plain, const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = type == QT_Q5_K ? 176 : 144;	/* bytes of a
								   block */
	size_t b, i;
	int j;

	for (b = 0; b < n; b++) {
		__m512i sum[4], q[4][4], sa[4], u[2][4], at[4];
		struct row_heads h;

		read_heads(w, &h);
		for (j = 0; j < nt; j++) {
			order_acts(x[j] + b, q[j]);
			sa[j] = plain ? h.scale : _mm512_mullo_epi16(h.scale,
			    _mm512_broadcast_i32x4(_mm_load_si128(
			    (const __m128i *)x[j][b].a)));
		}
		UNROLL
		for (i = 0; i < 4; i += 2) {
			prefetch(ahead + (4 * b + i) * bytes, 2 * bytes);
			weights_k4(type, w[i], u[0]);
			weights_k4(type, w[i + 1], u[1]);
			scales_k45((int)i, at);
			for (j = 0; j < nt; j++) {
				__m512i v = dot_two(u[0], u[1], q[j], sa[j],
				    at);

				sum[j] = i == 0 ? v : join_two(sum[j], v);
			}
			w[i] += bytes;
			w[i + 1] += bytes;
		}
		for (j = 0; j < nt; j++)
			acc[j] = add_block(acc[j], &h, sum[j], x[j] + b);
	}
}

#endif
