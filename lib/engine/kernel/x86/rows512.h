/* SPDX-License-Identifier: ISC */
/* rows512.h - what rows4.h wants of registers of 512 bits. */
#ifndef QWEN_X86_ROWS512_H
#define QWEN_X86_ROWS512_H

#include "engine/kernel/x86/rows4.h"

/* The sums of four vectors, one a lane. */
PI __m128i
sum16x4(const __m512i *v)
{
	__m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
	    _mm512_unpackhi_epi32(v[0], v[1]));
	__m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
	    _mm512_unpackhi_epi32(v[2], v[3]));
	__m256i c;

	a = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b),
	    _mm512_unpackhi_epi64(a, b));
	c = _mm256_add_epi32(_mm512_castsi512_si256(a),
	    _mm512_extracti64x4_epi64(a, 1));
	return _mm_add_epi32(_mm256_castsi256_si128(c),
	    _mm256_extracti128_si256(c, 1));
}

/*
 * ---- 256 weights under a d: unsigned by their bias, which comes
 * off through the sums of the activations
 */

/* Each of four int16 of v from place 4k on, eight times. */
PI __m512i
pick16(__m256i v, int k)
{
	const __m512i at = _mm512_set_epi64(0x0003000300030003LL,
	    0x0003000300030003LL, 0x0002000200020002LL,
	    0x0002000200020002LL, 0x0001000100010001LL,
	    0x0001000100010001LL, 0, 0);

	return _mm512_permutexvar_epi16(_mm512_add_epi16(at,
	    _mm512_set1_epi16((short)(4 * k))), _mm512_castsi256_si512(v));
}

/* Four of 16 int32 likewise, four times each. */
PI __m512i
pick32(__m512i v, int k)
{
	const __m512i at = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1,
	    0, 0, 0, 0);

	return _mm512_permutexvar_epi32(_mm512_add_epi32(at,
	    _mm512_set1_epi32(4 * k)), v);
}

/*
 * Pairs of products are below 2^15 but for weights of 8 bits: there four are
 * added in 32 bits, and multiplied with the scale after it.
 */
PI __m256i
dot_super(uint32_t type, const struct group *u, const struct qwen_q8 *x)
{
	__m256i sa = _mm256_mullo_epi16(u->scale, twice(load16(x->a)));
	__m512i sum = _mm512_setzero_si512(), wide = _mm512_cvtepi16_epi32(sa);
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		__m512i q = _mm512_loadu_si512(x->q + 64 * k);

		if (qwen_traits[type].bias == 128)
			sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(
			    _mm512_dpbusd_epi32(_mm512_setzero_si512(),
			    u->w[k] ^ set8(0x80), q), pick32(wide, k)));
		else
			sum = _mm512_dpwssd_epi32(sum, _mm512_maddubs_epi16(
			    u->w[k], q), pick16(sa, k));
	}
	sa = _mm256_add_epi32(_mm512_castsi512_si256(sum),
	    _mm512_extracti64x4_epi64(sum, 1));
	return qwen_traits[type].bias == 0 ? sa :
	    _mm256_sub_epi32(sa, bias_sum(type, u, x));
}

/* ---- those with a d for fewer */

/* Four rows' sums over the 128-bit lanes, a row in each dword of a lane. */
PI __m512i
rows_by_lane(const __m512i *v)
{
	__m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
	    _mm512_unpackhi_epi32(v[0], v[1]));
	__m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
	    _mm512_unpackhi_epi32(v[2], v[3]));

	return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b),
	    _mm512_unpackhi_epi64(a, b));
}

/* a times sums that have the bias too much for each activation */
PI __m128i
scaled(uint32_t type, __m128i sum, int16_t a, int16_t asum)
{
	return _mm_sub_epi32(_mm_mullo_epi32(sum, _mm_set1_epi32(a)),
	    _mm_set1_epi32(qwen_traits[type].bias * asum));
}

PI __m128
add_step(__m128 part, __m128 d, __m128i sum)
{
	return _mm_fmadd_ps(d, _mm_cvtepi32_ps(sum), part);
}

/*
 * Add register k, of which there may be the first 32 columns alone.  What a d
 * of more than that is for is added up in *run.
 */
PI __m128
add_lanes(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *x, size_t k, int two, __m512i v, __m128i *run,
    __m128 part)
{
	const unsigned span = qwen_traits[type].span;
	__m128i s[4] = { _mm512_castsi512_si128(v),
	    _mm512_extracti32x4_epi32(v, 1), _mm512_extracti32x4_epi32(v, 2),
	    _mm512_extracti32x4_epi32(v, 3) };
	size_t i;

	if (span == 16) {
		UNROLL
		for (i = 0; i < 4; i++)
			part = add_step(part, load_d4(type, w, 4 * k + i),
			    scaled(type, s[i], x->a[2 * k + i / 2],
			    x->asum16[4 * k + i]));
		return part;
	}
	s[0] = scaled(type, _mm_add_epi32(s[0], s[1]), x->a[2 * k],
	    x->asum[2 * k]);
	s[1] = scaled(type, _mm_add_epi32(s[2], s[3]), x->a[2 * k + 1],
	    x->asum[2 * k + 1]);
	if (span == 32) {
		part = add_step(part, load_d4(type, w, 2 * k), s[0]);
		if (two)
			part = add_step(part, load_d4(type, w, 2 * k + 1), s[1]);
		return part;
	}
	*run = _mm_add_epi32(_mm_add_epi32(s[0], s[1]),
	    64 * k % span == 0 ? _mm_setzero_si128() : *run);
	if (64 * (k + 1) % span == 0)
		part = add_step(part, load_d4(type, w, 64 * k / span), *run);
	return part;
}

/* Two blocks of 32 at a time. */
PI void
block_floats(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, size_t g, size_t nb, int nt, __m128 *part)
{
	__m128i run[4] = { _mm_setzero_si128() };
	__m512i v[4][4];
	size_t b, i;
	int j;

	for (b = 0; b < nb; b += 2) {
		int two = b + 1 < nb;

		for (i = 0; i < 4; i++) {
			__m512i u = block_weights(type, w[i], (int)b / 2, two);

			if (qwen_traits[type].bias == 128)
				u ^= set8(0x80);
			for (j = 0; j < nt; j++)
				v[j][i] = _mm512_dpbusd_epi32(
				    _mm512_setzero_si512(), u,
				    _mm512_loadu_si512(x[j][g].q + 32 * b));
		}
		for (j = 0; j < nt; j++)
			part[j] = add_lanes(type, w, x[j] + g, b / 2, two,
			    rows_by_lane(v[j]), &run[j], part[j]);
	}
}

#endif
