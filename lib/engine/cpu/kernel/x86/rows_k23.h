/* SPDX-License-Identifier: ISC */
/*
 * rows_k23.h - four rows by up to four tokens of Q2_K and Q3_K: 16 scales of a
 * few bits per 256 weights of two or three bits.
 *
 * Half of a block has four planes of 32 weights; a byte has two bits of each
 * plane.  A 256-bit register holds a plane, with one scale per 128-bit lane.
 * So scales are brought into the order 0 2 4 .. 14, 1 3 .. 15, for two rows at
 * once.
 */
#ifndef QWEN_X86_ROWS_K23_H
#define QWEN_X86_ROWS_K23_H

#include "engine/cpu/kernel/x86/decode.h"

KERNEL_INLINE __m256i
in_each_lane(__m128i v)
{
	return _mm256_broadcastsi128_si256(v);
}

/* ---- scales in that order */

struct k23_heads {
	__m256i	scale[4], min[4];	/* int16 per row */
};

/* Widens the bytes of two rows to int16, one register per row. */
KERNEL_INLINE void
widen_rows(__m256i v, __m256i *to)
{
	to[0] = _mm256_cvtepu8_epi16(_mm256_castsi256_si128(v));
	to[1] = _mm256_cvtepu8_epi16(_mm256_extracti128_si256(v, 1));
}

KERNEL_INLINE __m256i
load_rows(const unsigned char *const *w, size_t at)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(
	    load16(w[0] + at)), load16(w[1] + at), 1);
}

KERNEL_INLINE void
heads_q2_k(const unsigned char *const *w, __m256i *scale, __m256i *min)
{
	const __m256i order = in_each_lane(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12,
	    14, 1, 3, 5, 7, 9, 11, 13, 15));
	const __m256i m4 = _mm256_set1_epi8(15);
	__m256i v = _mm256_shuffle_epi8(load_rows(w, 0), order);

	widen_rows(v & m4, scale);
	widen_rows(_mm256_srli_epi16(v, 4) & m4, min);
}

/*
 * Unpacks six-bit scales minus 32: 16 nibbles by halves, then 16 pairs of bits.
 */
KERNEL_INLINE void
heads_q3_k(const unsigned char *const *w, __m256i *scale)
{
	/* the scales are bytes 2 .. 13 of these */
	const __m256i low = in_each_lane(_mm_setr_epi8(2, 4, 6, 8, 2, 4, 6, 8,
	    3, 5, 7, 9, 3, 5, 7, 9));
	const __m256i high = in_each_lane(_mm_setr_epi8(10, 12, 10, 12, 10, 12,
	    10, 12, 11, 13, 11, 13, 11, 13, 11, 13));
	/* moves pairs of bits to the top of their byte */
	const __m256i up = _mm256_set1_epi64x(0x0001000400100040);
	const __m256i down = _mm256_set1_epi64x(4LL << 32);
	__m256i v = load_rows(w, 94), hi;
	int i;

	hi = _mm256_mullo_epi16(_mm256_shuffle_epi8(v, high), up) &
	    _mm256_set1_epi8((char)0xc0);
	v = _mm256_srlv_epi32(_mm256_shuffle_epi8(v, low), down) &
	    _mm256_set1_epi8(15);
	widen_rows(v | _mm256_srli_epi16(hi, 2), scale);
	for (i = 0; i < 2; i++)
		scale[i] = _mm256_sub_epi16(scale[i], _mm256_set1_epi16(32));
}

KERNEL_INLINE void
heads_k23(uint32_t type, const unsigned char *const *w, struct k23_heads *h)
{
	int i;

	UNROLL
	for (i = 0; i < 4; i += 2) {
		if (type == QT_Q3_K)
			heads_q3_k(w + i, h->scale + i);
		else
			heads_q2_k(w + i, h->scale + i, h->min + i);
	}
}

/* ---- weights: unpack the four planes of half c */

KERNEL_INLINE void
planes_q2_k(const unsigned char *p, int c, __m256i *u)
{
	const __m256i m2 = _mm256_set1_epi8(3);
	__m256i v = load32(p + 16 + 32 * c);
	int j;

	UNROLL
	for (j = 0; j < 4; j++)
		u[j] = _mm256_srli_epi16(v, 2 * j) & m2;
}

/*
 * The third bits: a byte has one for each plane.  Lookups move them into the
 * nibbles of planes 0 and 2, or 1 and 3.
 */
#define EVEN_K3 _mm_setr_epi8(0, 4, 0, 4, 64, 68, 64, 68, 0, 4, 0, 4, 64, 68,	\
	64, 68)
#define ODD_K3 _mm_setr_epi8(0, 0, 4, 4, 0, 0, 4, 4, 64, 64, 68, 68, 64, 64,	\
	68, 68)

KERNEL_INLINE void
planes_q3_k(const unsigned char *p, int c, __m256i *u)
{
	const __m256i even = in_each_lane(EVEN_K3), odd = in_each_lane(ODD_K3);
	const __m256i m4 = _mm256_set1_epi8(15), m2 = _mm256_set1_epi8(0x33);
	__m256i v = load32(p + 32 + 32 * c);
	__m256i bit = _mm256_srli_epi16(load32(p), 4 * c) & m4;
	__m256i a = (v & m2) | _mm256_shuffle_epi8(even, bit);
	__m256i b = (_mm256_srli_epi16(v, 2) & m2) |
	    _mm256_shuffle_epi8(odd, bit);

	u[0] = a & m4;
	u[1] = b & m4;
	u[2] = _mm256_srli_epi16(a, 4) & m4;
	u[3] = _mm256_srli_epi16(b, 4) & m4;
}

/* ---- sums */

/* Repeats scale i of both lanes in each lane. */
#define SCALE(v, i) _mm256_shuffle_epi8(v,				\
	_mm256_set1_epi16((short)((2 * (i) + 1) << 8 | 2 * (i))))

KERNEL_INLINE __m256i
add_planes(__m256i sum, __m256i u, __m256i q, __m256i scale)
{
	__m256i v = _mm256_maddubs_epi16(u, q);

#ifdef __AVX512VNNI__
	return _mm256_dpwssd_epi32(sum, v, scale);
#else
	return _mm256_add_epi32(sum, _mm256_madd_epi16(v, scale));
#endif
}

/*
 * Loads a token's factors a, and sums of 16 activations, in the order of the
 * scales.
 */
KERNEL_INLINE void
k23_act(const struct qwen_q8 *x, __m256i *a, __m256i *asum)
{
	const __m256i order = in_each_lane(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12,
	    13, 2, 3, 6, 7, 10, 11, 14, 15));

	*a = in_each_lane(load16(x->a));
	*asum = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(
	    load32(x->asum16), order), 0xd8);
}

/* Multiplies a row with nt tokens: eight int32 whose total is the sum. */
KERNEL_INLINE void
row_k23(uint32_t type, const unsigned char *p, __m256i scale,
    const struct qwen_q8 *const *x, const __m256i *a, const __m256i *asum,
    int nt, __m256i (*sum)[4], size_t i)
{
	const __m256i bias = _mm256_slli_epi16(scale, 2);
	__m256i u[4], sa[4];
	int j, c, k;

	for (j = 0; j < nt; j++) {
		sa[j] = _mm256_mullo_epi16(scale, a[j]);
		sum[j][i] = _mm256_setzero_si256();
		if (type == QT_Q3_K)
			sum[j][i] = _mm256_sub_epi32(sum[j][i],
			    _mm256_madd_epi16(bias, asum[j]));
	}
	UNROLL
	for (c = 0; c < 2; c++) {
		if (type == QT_Q3_K)
			planes_q3_k(p, c, u);
		else
			planes_q2_k(p, c, u);
		for (j = 0; j < nt; j++) {
			UNROLL
			for (k = 0; k < 4; k++)
				sum[j][i] = add_planes(sum[j][i], u[k],
				    load32(x[j]->q + 128 * c + 32 * k),
				    SCALE(sa[j], 4 * c + k));
		}
	}
}

KERNEL_INLINE void
sums_k23(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, size_t n_in, int nt,
    const unsigned char *ahead, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	__m256i sum[4][4], min[4], a[4], asum[4];
	const unsigned char *p[4];
	const struct qwen_q8 *y[4];
	struct k23_heads h;
	size_t b, i;
	int j;

	for (b = 0; b < n_in / QWEN_GROUP; b++) {
		__m128 d;

		prefetch(ahead + 4 * b * f->bytes, 4 * f->bytes);
		for (i = 0; i < 4; i++)
			p[i] = w[i] + b * f->bytes;
		for (j = 0; j < nt; j++) {
			y[j] = x[j] + b;
			k23_act(y[j], &a[j], &asum[j]);
		}
		heads_k23(type, p, &h);
		UNROLL
		for (i = 0; i < 4; i++)
			row_k23(type, p[i], h.scale[i], y, a, asum, nt, sum,
			    i);
		d = load_d4(type, p, 0);
		for (j = 0; j < nt; j++)
			acc[j] = add_sums(acc[j], _mm_mul_ps(d,
			    _mm_set1_ps(y[j]->d)), sum[j]);
		if (!f->has_min)
			continue;
		d = f16x4(p, f->d_at + 2);
		for (j = 0; j < nt; j++) {
			for (i = 0; i < 4; i++)
				min[i] = _mm256_madd_epi16(h.min[i], asum[j]);
			acc[j] = add_sums(acc[j], _mm_mul_ps(-d,
			    _mm_set1_ps(y[j]->d)), min);
		}
	}
}

#endif
