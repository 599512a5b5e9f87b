/* SPDX-License-Identifier: ISC */
/*
 * dequant.h - weights of LANES rows as bf16, from the quads that the functions
 * of unpack.h make: for numerics version 2.
 *
 * A weight is fma(mul, v, add) of its byte v: its format's definition rounds
 * the product and the difference, but with these widths the product is exact
 * (11 bits of d, up to 8 of a scale, and of v), so it is one rounding.
 */
#ifndef QWEN_KERNEL_DEQUANT_H
#define QWEN_KERNEL_DEQUANT_H

#include <stddef.h>

#include "engine/kernel/x86/decode.h"

/* A group under way.  The including file gives store_quad(), by dequant4(). */
struct panel {
	/* as unpack.h wants them, for the one group */
	int32_t	scale[16][2 * LANES];
	int32_t	min[1][8][2 * LANES];
	float	d[1][16][2 * LANES];
	float	dmin[1][2 * LANES];
	float	m[1][8][2 * LANES];
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
	store_i(p->scale[32 / qwen_traits[type].span * j + k] + LANES * half,
	    v);
}

/* What is taken off weights of 32-block j, or of a part of it, or added. */
PI wide_f
load_min(uint32_t type, const struct panel *p, size_t j, size_t k, size_t at)
{
	const size_t pair = qwen_traits[type].span == 16 ? 2 * j + k : j;
	wide_i min;

	if (qwen_traits[type].by_block)
		return W(load_ps)(p->m[0][j] + at);
	min = W(srl_epi32)(load_i(p->min[0][pair / 2] + at),
	    _mm_cvtsi32_si128(pair % 2 ? 16 : 0));
	return W(fnmadd_ps)(W(load_ps)(p->dmin[0] + at),
	    W(cvtepi32_ps)(min & W(set1_epi32)(0xffff)), W(setzero_ps)());
}

/*
 * mul and add of 32-block j: of all of it, or of part k of two where a scale is
 * for 16 columns.  Weights are too large by their bias.
 */
PI void
prepare(uint32_t type, struct panel *p, size_t j, size_t k, int half)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t at = (size_t)(LANES * half);
	const size_t i = f->span == 16 ? 2 * j + k : 32 * j / f->span;
	wide_f mul = W(load_ps)(p->d[0][f->by_block ? i : 0] + at), add;

	if (!f->by_block)
		mul *= W(cvtepi32_ps)(load_i(p->scale[i] + at));
	if (f->has_min)
		add = load_min(type, p, j, k, at);
	else
		add = mul * W(set1_ps)((float)-f->bias);
	W(store_ps)(p->mul[j] + at, mul);
	W(store_ps)(p->add[j] + at, add);
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

/* A quad's four columns, not rounded. */
PI void
exact4(uint32_t type, struct panel *p, size_t j, int half, int quad,
    wide_i v, wide_f *w)
{
	wide_f mul, add;
	int i;

	if (qwen_traits[type].bias == 128)
		v ^= set8(0x80);
	if (quad == 0 || (qwen_traits[type].span == 16 && quad == 4))
		prepare(type, p, j, (size_t)quad / 4, half);
	mul = W(load_ps)(p->mul[j] + LANES * half);
	add = W(load_ps)(p->add[j] + LANES * half);
	if (type == QT_MXFP4) {		/* all are bf16, some with no room
					   for 16 times mul */
		UNROLL
		for (i = 0; i < 4; i++)
			w[i] = mul * (byte_f32(v, i) -
			    W(set1_ps)((float)qwen_traits[type].bias));
		return;
	}
	UNROLL
	for (i = 0; i < 4; i++)
		w[i] = W(fmadd_ps)(mul, byte_f32(v, i), add);
}

/* The same, rounded; those of MXFP4 are bf16 as they are. */
PI void
dequant4(uint32_t type, struct panel *p, size_t j, int half, int quad,
    wide_i v, wide_f *w)
{
	int i;

	exact4(type, p, j, half, quad, v, w);
	UNROLL
	for (i = 0; type != QT_MXFP4 && i < 4; i++)
		w[i] = round_bf16(w[i]);
}

#endif
