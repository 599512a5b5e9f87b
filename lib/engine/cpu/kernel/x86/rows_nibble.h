/* SPDX-License-Identifier: ISC */
/*
 * rows_nibble.h - four rows by up to four tokens of the formats with nibbles in
 * blocks of 32: Q4_0 to Q5_1, IQ4_NL, MXFP4, IQ4_XS.
 *
 * A register has 16 bytes of two blocks, one per 128-bit lane; lower and upper
 * nibbles are the halves of a block.  Sums of four rows are transposed so that
 * a lane has those of a block, one dword per row.  Then the scales of two
 * blocks and four rows are applied at once.  AVX-512 also uses 256-bit
 * registers here: 16 bytes at a time do not fill longer registers faster.
 */
#ifndef QWEN_X86_ROWS_NIBBLE_H
#define QWEN_X86_ROWS_NIBBLE_H

#include "engine/cpu/kernel/x86/decode.h"

#define NIBBLE_PAIRS (QWEN_GROUP / 64)	/* pairs of blocks in a group */

/* Loads 16 bytes at a and at b, one per lane. */
KERNEL_INLINE __m256i
two_lanes(const void *a, const void *b)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(load16(a)),
	    load16(b), 1);
}

KERNEL_INLINE __m256i
look_up2(__m256i index, const int8_t *table)
{
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(table)),
	    index);
}

/* ---- activations */

/*
 * Two blocks' activations: their halves, and the factor, as int32 or for
 * VPMADDWD.
 */
struct pair_act {
	__m256i	q[2], a;
};

/*
 * Repeats two int16 in the dwords of a lane each: in both halves of a dword, or
 * only in the upper half.
 */
KERNEL_INLINE __m256i
two_int16(const int16_t *p, int both)
{
	const __m256i up = _mm256_setr_epi32(0x01008080, 0x01008080,
	    0x01008080, 0x01008080, 0x03028080, 0x03028080, 0x03028080,
	    0x03028080);
	const __m256i twice = _mm256_setr_epi32(0x01000100, 0x01000100,
	    0x01000100, 0x01000100, 0x03020302, 0x03020302, 0x03020302,
	    0x03020302);

	return _mm256_shuffle_epi8(_mm256_set1_epi32(dword_at(p)),
	    both ? twice : up);
}

KERNEL_INLINE void
pair_act(const struct qwen_q8 *x, size_t k, struct pair_act *y)
{
	y->q[0] = two_lanes(x->q + 64 * k, x->q + 64 * k + 32);
	y->q[1] = two_lanes(x->q + 64 * k + 16, x->q + 64 * k + 48);
#ifdef __AVX512VNNI__
	y->a = _mm256_srli_epi32(two_int16(x->a + 2 * k, 0), 16);
#else
	y->a = two_int16(x->a + 2 * k, 1);
#endif
}

/* Returns a times the sums of 32 activations, times `by', a power of two. */
KERNEL_INLINE __m256i
pair_asum(const struct qwen_q8 *x, size_t k, int by)
{
	return _mm256_srai_epi32(two_int16(x->asum + 2 * k, 0),
	    16 - __builtin_ctz((unsigned)by));
}

/* ---- weights */

/* Returns 16 where the column's bit is set; two bytes of bits from `at' on. */
KERNEL_INLINE __m256i
fifth_bits_at(__m256i bits, int at)
{
	const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
	const __m256i each = _mm256_set_epi64x(0x0101010101010101, 0,
	    0x0101010101010101, 0);

	bits = _mm256_shuffle_epi8(bits, _mm256_add_epi8(each,
	    _mm256_set1_epi8((char)at)));
	return _mm256_cmpeq_epi8(bits & bit, bit) & _mm256_set1_epi8(16);
}

/* Unpacks the halves of two blocks, with nibbles at p and at p + next. */
KERNEL_INLINE void
pair_weights(uint32_t type, const unsigned char *p, size_t next, __m256i *u)
{
	static const int8_t fp4[16] = {
		16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4
	};
	const __m256i m4 = _mm256_set1_epi8(15);
	__m256i v = two_lanes(p, p + next);

	u[0] = v & m4;
	u[1] = _mm256_srli_epi16(v, 4) & m4;
	if (type == QT_Q5_0 || type == QT_Q5_1) {
		v = two_lanes(p - 4, p - 4 + next);
		u[0] |= fifth_bits_at(v, 0);
		u[1] |= fifth_bits_at(v, 2);
	} else if (type == QT_MXFP4) {
		u[0] = look_up2(u[0], fp4);
		u[1] = look_up2(u[1], fp4);
	} else if (type == QT_IQ4_NL || type == QT_IQ4_XS) {
		u[0] = look_up2(u[0], qwen_iq4_values);
		u[1] = look_up2(u[1], qwen_iq4_values);
#ifdef __AVX512VNNI__
		u[0] ^= _mm256_set1_epi8((char)128);
		u[1] ^= _mm256_set1_epi8((char)128);
#endif
	}
}

/* ---- sums: one dword per row, one lane per block */

#ifdef __AVX512VNNI__
KERNEL_INLINE __m256i
pair_sums(uint32_t type, __m256i (*u)[2], const struct pair_act *x)
{
	__m256i v[4];
	int i;

	(void)type;
	UNROLL
	for (i = 0; i < 4; i++)
		v[i] = _mm256_dpbusd_epi32(_mm256_dpbusd_epi32(
		    _mm256_setzero_si256(), u[i][0], x->q[0]), u[i][1],
		    x->q[1]);
	return _mm256_mullo_epi32(rows_by_half(v), x->a);
}
#else
/* Adds two rows' int16, with dwords interleaved. */
KERNEL_INLINE __m256i
join16(__m256i a, __m256i b)
{
	return _mm256_add_epi16(_mm256_unpacklo_epi32(a, b),
	    _mm256_unpackhi_epi32(a, b));
}

/*
 * Sums products of unsigned weights in 16 bits as far as they fit: 16 products
 * of nibbles (at most 30480), 8 of weights below 32 (31496).
 */
KERNEL_INLINE __m256i
pair_sums(uint32_t type, __m256i (*u)[2], const struct pair_act *x)
{
	__m256i v[4], a, b;
	int i;

	UNROLL
	for (i = 0; i < 4; i++) {
		if (qwen_traits[type].bias == 128) {
			a = _mm256_maddubs_epi16(_mm256_abs_epi8(u[i][0]),
			    _mm256_sign_epi8(x->q[0], u[i][0]));
			b = _mm256_maddubs_epi16(_mm256_abs_epi8(u[i][1]),
			    _mm256_sign_epi8(x->q[1], u[i][1]));
			v[i] = _mm256_add_epi32(_mm256_madd_epi16(a, x->a),
			    _mm256_madd_epi16(b, x->a));
		} else {
			v[i] = _mm256_add_epi16(
			    _mm256_maddubs_epi16(u[i][0], x->q[0]),
			    _mm256_maddubs_epi16(u[i][1], x->q[1]));
		}
	}
	if (qwen_traits[type].bias == 128)
		return rows_by_half(v);
	a = join16(v[0], v[1]);
	b = join16(v[2], v[3]);
	if (qwen_traits[type].most <= 15)
		return _mm256_madd_epi16(_mm256_add_epi16(
		    _mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
		    x->a);
	a = _mm256_madd_epi16(a, x->a);
	b = _mm256_madd_epi16(b, x->a);
	return _mm256_add_epi32(_mm256_unpacklo_epi64(a, b),
	    _mm256_unpackhi_epi64(a, b));
}
#endif

/*
 * Computes the sums of pair k of a group for nt tokens.  A block ends with its
 * nibbles.
 */
KERNEL_INLINE void
pair_products(uint32_t type, const unsigned char *const *p, size_t next,
    const struct qwen_q8 *const *x, size_t k, int nt, __m256i *sum)
{
	const int bias = ROW_BIAS(type);
	struct pair_act y;
	__m256i u[4][2];
	size_t i;
	int j;

	UNROLL
	for (i = 0; i < 4; i++)
		pair_weights(type, p[i] + 2 * next * k, next, u[i]);
	UNROLL
	for (j = 0; j < nt; j++) {
		pair_act(x[j], k, &y);
		sum[j] = pair_sums(type, u, &y);
		if (bias != 0)
			sum[j] = _mm256_sub_epi32(sum[j],
			    pair_asum(x[j], k, bias));
	}
}

/* ---- one d per block */

/*
 * Converts eight MXFP4 scales, as powers_of_two(): 2^(x - 128); above 252 NaN.
 */
KERNEL_INLINE __m256
powers_of_two8(__m256i x)
{
	__m256i v = _mm256_max_epu32(_mm256_slli_epi32(x, 23),
	    _mm256_set1_epi32(0x400000));

	v = _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(v),
	    _mm256_set1_ps(0.5f)));
	return _mm256_castsi256_ps(v | _mm256_srai_epi32(_mm256_sub_epi32(
	    _mm256_set1_epi32(252), x), 31));
}

/* Loads 16 bits at this offset of four rows. */
KERNEL_INLINE __m128i
four_halves(const unsigned char *const *w, size_t at)
{
	return _mm_unpacklo_epi32(
	    _mm_unpacklo_epi16(load4(w[0] + at), load4(w[1] + at)),
	    _mm_unpacklo_epi16(load4(w[2] + at), load4(w[3] + at)));
}

/* Loads d of two blocks, one per lane. */
KERNEL_INLINE __m256
pair_d(uint32_t type, const unsigned char *const *w, size_t at, size_t next)
{
	__m128i v = _mm_unpacklo_epi64(four_halves(w, at),
	    four_halves(w, at + next));

	if (type == QT_MXFP4)		/* d is a byte */
		return powers_of_two8(_mm256_cvtepu16_epi32(
		    v & _mm_set1_epi16(255)));
	return _mm256_cvtph_ps(v);
}

/* Loads d into the lower lane, the minimum into the upper. */
KERNEL_INLINE __m256
d_and_min(const unsigned char *const *w, size_t at)
{
	const __m128i halves = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6,
	    7, 10, 11, 14, 15);

	return _mm256_cvtph_ps(_mm_shuffle_epi8(_mm_unpacklo_epi64(
	    _mm_unpacklo_epi32(load4(w[0] + at), load4(w[1] + at)),
	    _mm_unpacklo_epi32(load4(w[2] + at), load4(w[3] + at))), halves));
}

/* Adds two blocks to part, whose upper lane has the minimums. */
KERNEL_INLINE __m256
add_with_min(const __m256 *d, __m256 sum, __m256 asum, __m256 part)
{
	part = _mm256_fmadd_ps(d[0],
	    _mm256_permute2f128_ps(sum, asum, 0x20), part);
	return _mm256_fmadd_ps(d[1],
	    _mm256_permute2f128_ps(sum, asum, 0x31), part);
}

/* Adds two blocks to part; its upper lane is ignored. */
KERNEL_INLINE __m256
add_pair(__m256 d, __m256 sum, __m256 part)
{
	part = _mm256_fmadd_ps(d, sum, part);
	return _mm256_castps128_ps256(_mm_fmadd_ps(
	    _mm256_extractf128_ps(d, 1), _mm256_extractf128_ps(sum, 1),
	    _mm256_castps256_ps128(part)));
}

/* Adds a group of nt tokens to acc. */
KERNEL_INLINE void
nibble_group(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, int nt, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t next = f->bytes;
	const unsigned char *p[4];
	__m256 part[4], d[2];
	__m256i sum[4];
	size_t i, k;
	int j;

	for (i = 0; i < 4; i++)
		p[i] = w[i] + next - 16;
	for (j = 0; j < nt; j++)
		part[j] = _mm256_setzero_ps();
	UNROLL
	for (k = 0; k < NIBBLE_PAIRS; k++) {
		pair_products(type, p, next, x, k, nt, sum);
		if (f->has_min) {
			d[0] = d_and_min(w, 2 * k * next);
			d[1] = d_and_min(w, (2 * k + 1) * next);
		} else {
			d[0] = pair_d(type, w, 2 * k * next, next);
		}
		for (j = 0; j < nt; j++) {
			__m256 s = _mm256_cvtepi32_ps(sum[j]);

			part[j] = f->has_min ? add_with_min(d, s,
			    _mm256_cvtepi32_ps(pair_asum(x[j], k, 1)),
			    part[j]) : add_pair(d[0], s, part[j]);
		}
	}
	for (j = 0; j < nt; j++) {
		__m128 by = _mm_set1_ps(x[j]->d);

		acc[j] = _mm_fmadd_ps(by, _mm256_castps256_ps128(part[j]),
		    acc[j]);
		if (f->has_min)
			acc[j] = _mm_fmadd_ps(by,
			    _mm256_extractf128_ps(part[j], 1), acc[j]);
	}
}

/* ---- IQ4_XS: integer scales of blocks, one d per 256 weights */

/* Headers of four rows, in both lanes: d, scales_h from bit 4 on, scales_l. */
struct iq4_xs_heads {
	__m128	d;
	__m256i	high, low;
};

KERNEL_INLINE void
read_iq4_xs(const unsigned char *const *w, struct iq4_xs_heads *h)
{
	__m128i a = _mm_unpacklo_epi64(load8(w[0]), load8(w[1]));
	__m128i b = _mm_unpacklo_epi64(load8(w[2]), load8(w[3]));
	__m128i first = _mm_unpacklo_epi64(_mm_shuffle_epi32(a, 0x08),
	    _mm_shuffle_epi32(b, 0x08));
	__m128i second = _mm_unpacklo_epi64(_mm_shuffle_epi32(a, 0x0d),
	    _mm_shuffle_epi32(b, 0x0d));

	h->d = _mm_cvtph_ps(_mm_packus_epi32(first & _mm_set1_epi32(0xffff),
	    first));
	h->high = _mm256_broadcastsi128_si256(_mm_srli_epi32(first, 12));
	h->low = _mm256_broadcastsi128_si256(second);
}

/* Returns the scales of blocks 2k and 2k + 1, one per lane. */
KERNEL_INLINE __m256i
scales_iq4_xs(const struct iq4_xs_heads *h, int k)
{
	const __m256i block = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
	__m256i at = _mm256_add_epi32(block, _mm256_set1_epi32(2 * k));
	__m256i low = _mm256_srlv_epi32(h->low, _mm256_slli_epi32(at, 2));
	__m256i high = _mm256_srlv_epi32(h->high, _mm256_slli_epi32(at, 1));

	return _mm256_sub_epi32((low & _mm256_set1_epi32(15)) |
	    (high & _mm256_set1_epi32(0x30)), _mm256_set1_epi32(32));
}

KERNEL_INLINE void
sums_iq4_xs(const unsigned char *const *w, const struct qwen_q8 *const *x,
    size_t n_in, int nt, const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = qwen_traits[QT_IQ4_XS].bytes;
	const unsigned char *p[4], *from[4];
	__m256i sum[4], total[4], scale;
	const struct qwen_q8 *y[4];
	struct iq4_xs_heads h;
	size_t b, i, k;
	int j;

	for (b = 0; b < n_in / QWEN_GROUP; b++) {
		prefetch(ahead + 4 * b * bytes, 4 * bytes);
		for (i = 0; i < 4; i++) {
			p[i] = w[i] + b * bytes;
			from[i] = p[i] + 8;
		}
		for (j = 0; j < nt; j++) {
			y[j] = x[j] + b;
			total[j] = _mm256_setzero_si256();
		}
		read_iq4_xs(p, &h);
		UNROLL
		for (k = 0; k < NIBBLE_PAIRS; k++) {
			pair_products(QT_IQ4_XS, from, 16, y, k, nt, sum);
			scale = scales_iq4_xs(&h, (int)k);
			for (j = 0; j < nt; j++)
				total[j] = _mm256_add_epi32(total[j],
				    _mm256_mullo_epi32(sum[j], scale));
		}
		for (j = 0; j < nt; j++) {
			__m128i v = add_halves(total[j]);

			acc[j] = _mm_fmadd_ps(_mm_mul_ps(h.d,
			    _mm_set1_ps(y[j]->d)), _mm_cvtepi32_ps(v), acc[j]);
		}
	}
}

#endif
