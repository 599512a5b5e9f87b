/* SPDX-License-Identifier: ISC */
/* rows256.h - the functions of rows4.h for 256-bit registers. */
#ifndef QWEN_X86_ROWS256_H
#define QWEN_X86_ROWS256_H

#include "engine/cpu/kernel/x86/rows4.h"

/*
 * ---- 256 weights per d: unsigned due to their bias, which is subtracted with
 * the sums of the activations
 */

/*
 * Selects int16 2j for the lower half, 2j + 1 for the upper, from eight in each
 * half.
 */
#define PICK(v, j) _mm256_shuffle_epi8(v, _mm256_set_m128i(		\
	_mm_set1_epi16((short)((4 * (j) + 3) << 8 | (4 * (j) + 2))),	\
	_mm_set1_epi16((short)((4 * (j) + 1) << 8 | 4 * (j)))))

/*
 * Returns sums of two products.  VPMADDUBSW needs one unsigned factor: for
 * 8-bit weights the magnitude, with the sign moved to the activation; at most 2
 * * 128 * 127.
 */
KERNEL_INLINE __m256i
dot2(uint32_t type, __m256i w, __m256i q)
{
	if (qwen_traits[type].bias == 128)
		return _mm256_maddubs_epi16(_mm256_abs_epi8(w),
		    _mm256_sign_epi8(q, w));
	return _mm256_maddubs_epi16(w, q);
}

/* Returns the bias that dot2's sums include. */
KERNEL_INLINE int
bias_of(uint32_t type)
{
	return qwen_traits[type].bias == 128 ? 0 : qwen_traits[type].bias;
}

KERNEL_INLINE __m256i
dot_super(uint32_t type, const struct group *u, const struct qwen_q8 *x)
{
	__m256i sa = _mm256_mullo_epi16(u->scale, twice(load16(x->a)));
	__m256i lo = _mm256_permute2x128_si256(sa, sa, 0x00);
	__m256i hi = _mm256_permute2x128_si256(sa, sa, 0x11);
	__m256i sum = _mm256_setzero_si256();

	if (bias_of(type) != 0)
		sum = _mm256_sub_epi32(sum, bias_sum(type, u, x));
#define STEP(v, j, at)							\
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(dot2(type,	\
	    u->w[at], load32(x->q + 32 * (at))), PICK(v, j)))
	STEP(lo, 0, 0); STEP(lo, 1, 1); STEP(lo, 2, 2); STEP(lo, 3, 3);
	STEP(hi, 0, 4); STEP(hi, 1, 5); STEP(hi, 2, 6); STEP(hi, 3, 7);
#undef STEP
	return sum;
}

/* ---- fewer weights per d */

/* Returns part + d * (sum minus the bias times asum). */
KERNEL_INLINE __m128
add_step(uint32_t type, __m128 part, __m128 d, __m128i sum, int asum)
{
	return _mm_fmadd_ps(d, _mm_cvtepi32_ps(_mm_sub_epi32(sum,
	    _mm_set1_epi32(bias_of(type) * asum))), part);
}

/* Adds 32 columns.  If a d has more columns, they are collected in *run. */
KERNEL_INLINE __m128
add_halves(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *x, size_t b, __m256i v, __m128i *run, __m128 part)
{
	const unsigned span = qwen_traits[type].span;
	__m128i lo = _mm256_castsi256_si128(v);
	__m128i hi = _mm256_extracti128_si256(v, 1);

	if (span == 16) {
		part = add_step(type, part, load_d4(type, w, 2 * b), lo,
		    x->asum16[2 * b]);
		return add_step(type, part, load_d4(type, w, 2 * b + 1), hi,
		    x->asum16[2 * b + 1]);
	}
	lo = _mm_add_epi32(lo, hi);
	if (span == 32)
		return add_step(type, part, load_d4(type, w, b), lo, x->asum[b]);
	lo = _mm_sub_epi32(lo, _mm_set1_epi32(bias_of(type) * x->asum[b]));
	*run = 32 * b % span == 0 ? lo : _mm_add_epi32(*run, lo);
	if (32 * (b + 1) % span == 0)
		part = add_step(type, part, load_d4(type, w, 32 * b / span), *run,
		    0);
	return part;
}

KERNEL_INLINE void
block_group(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, int nt, __m128 *acc)
{
	__m128i run[4] = { _mm_setzero_si128() };
	__m128 part[4];
	__m256i v[4][4];
	size_t b, i;
	int j;

	for (j = 0; j < nt; j++)
		part[j] = _mm_setzero_ps();
	for (b = 0; b < 8; b++) {
		for (i = 0; i < 4; i++) {
			__m256i u = block_weights(type, w[i], (int)b);

			for (j = 0; j < nt; j++)
				v[j][i] = _mm256_madd_epi16(dot2(type, u,
				    load32(x[j]->q + 32 * b)),
				    _mm256_set1_epi16(x[j]->a[b]));
		}
		for (j = 0; j < nt; j++)
			part[j] = add_halves(type, w, x[j], b,
			    rows_by_half(v[j]), &run[j], part[j]);
	}
	for (j = 0; j < nt; j++)
		acc[j] = _mm_fmadd_ps(_mm_set1_ps(x[j]->d), part[j], acc[j]);
}

#endif
