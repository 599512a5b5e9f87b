/* SPDX-License-Identifier: ISC */
/*
 * dequant.h - weights of LANES rows as bf16, from the quads that the functions
 * of unpack.h make: for numerics version 2.
 *
 * A weight is fma(mul, v, add) of its byte v: its format's definition rounds
 * the product and the difference, but with these widths the product is exact
 * (11 bits of d, 6 or 8 of a scale, 8 or 6 of v), so it is one rounding.
 */
#ifndef QWEN_KERNEL_DEQUANT_H
#define QWEN_KERNEL_DEQUANT_H

#include <stddef.h>

#include "engine/kernel/x86/wide.h"

/* A group under way.  The including file gives store_quad(), by dequant4(). */
struct panel {
	/* as unpack.h wants them, for the one group */
	int32_t	scale[16][2 * LANES];
	int32_t	min[1][4][2 * LANES];
	float	d[1][8][2 * LANES];
	float	dmin[1][2 * LANES];
	/* of the 32-blocks under way */
	float	mul[8][2 * LANES];
	float	add[8][2 * LANES];
	/* where its weights go; last, for the others are aligned vectors */
	void	*to;
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct panel, mul) % 64 == 0, "vectors are aligned");

#include "engine/kernel/x86/unpack.h"

PI void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, wide_i v)
{
	(void)g;
	store_i(p->scale[type == QT_Q6_K ? 2 * j + k : j] + LANES * half, v);
}

/*
 * mul and add of 32-block j: of all of it, or of one part of two where a scale
 * is for 16 columns.  Weights of Q6_K come 32 too large; those of Q8_0 are
 * signed bytes, turned to 0 .. 255: 128 too large.
 */
PI void
prepare(uint32_t type, struct panel *p, size_t j, int part_of, int half)
{
	wide_f mul = W(load_ps)(p->d[0][type == QT_Q8_0 ? j : 0] +
	    LANES * half), add;

	if (type != QT_Q8_0)
		mul *= W(cvtepi32_ps)(load_i(p->scale[type == QT_Q6_K ?
		    2 * j + (size_t)part_of : j] + LANES * half));
	if (type == QT_Q6_K || type == QT_Q8_0) {
		add = mul * W(set1_ps)(type == QT_Q6_K ? -32.0f : -128.0f);
	} else {
		wide_i min = W(srl_epi32)(load_i(p->min[0][j / 2] +
		    LANES * half), _mm_cvtsi32_si128(j % 2 ? 16 : 0));

		add = W(fnmadd_ps)(W(load_ps)(p->dmin[0] + LANES * half),
		    W(cvtepi32_ps)(min & W(set1_epi32)(0xffff)),
		    W(setzero_ps)());
	}
	W(store_ps)(p->mul[j] + LANES * half, mul);
	W(store_ps)(p->add[j] + LANES * half, add);
}

/*
 * To nearest even in the upper 16 bits: with m = 1.5 * 2^16 times the power of
 * two in x, m + x has its last bit where that of the bf16 is.
 */
PI wide_f
round_bf16(wide_f x)
{
	const wide_f k = W(set1_ps)(0x1.8p16f);
	wide_f m = (wide_f)((wide_i)x & W(set1_epi32)((int)0xff800000));

	return W(fnmadd_ps)(m, k, W(fmadd_ps)(m, k, x));
}

/* Byte i of the dwords of v, as f32. */
PI wide_f
byte_f32(wide_i v, int i)
{
#ifdef __AVX512F__
	const __m512i at = _mm512_set1_epi32((int)0x80808000);
	const __m512i lane = _mm512_broadcast_i32x4(
	    _mm_setr_epi32(0, 4, 8, 12));

	return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(v, at |
	    _mm512_add_epi32(lane, _mm512_set1_epi32(i))));
#else
	return _mm256_cvtepi32_ps(_mm256_srli_epi32(v, 8 * i) &
	    _mm256_set1_epi32(255));
#endif
}

/* A quad's four columns. */
PI void
dequant4(uint32_t type, struct panel *p, size_t j, int half, int quad,
    wide_i v, wide_f *w)
{
	wide_f mul, add;
	int i;

	if (type == QT_Q8_0)
		v ^= W(set1_epi8)((char)0x80);
	if (quad == 0 || (type == QT_Q6_K && quad == 4))
		prepare(type, p, j, quad / 4, half);
	mul = W(load_ps)(p->mul[j] + LANES * half);
	add = W(load_ps)(p->add[j] + LANES * half);
	UNROLL
	for (i = 0; i < 4; i++)
		w[i] = round_bf16(W(fmadd_ps)(mul, byte_f32(v, i), add));
}

#endif
