/* SPDX-License-Identifier: ISC */
/*
 * dequant.h - weights of LANES rows as bf16, from the quads that the functions
 * of unpack.h make, or as F16 and BF16 have them: for products in bf16.
 *
 * A weight is fma(mul, v, add) of its byte v: its format's definition rounds
 * the product and the difference, but with these widths the product is exact
 * (11 bits of d, up to 8 of a scale, and of v), so it is one rounding.
 */
#ifndef QWEN_KERNEL_DEQUANT_H
#define QWEN_KERNEL_DEQUANT_H

#include <stddef.h>

#include "engine/kernel/ahead.h"
#include "engine/kernel/x86/decode.h"

/* A group under way. */
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

#include "engine/kernel/x86/turn.h"
#include "engine/kernel/x86/unpack.h"

/*
 * The including file's: four columns of the group, k the first of them, of the
 * rows of a half; not rounded, round4() does it; or as pairs of bf16.
 */
PI void store_four(uint32_t type, struct panel *p, size_t k, int half,
    wide_f *w);
PI void store_pairs(struct panel *p, size_t k, int half, wide_i a, wide_i b);

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

/* To bf16; those of MXFP4 are that as they are. */
PI void
round4(uint32_t type, wide_f *w)
{
	int i;

	UNROLL
	for (i = 0; type != QT_MXFP4 && i < 4; i++)
		w[i] = round_bf16(w[i]);
}

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, wide_i v)
{
	wide_f w[4];

	(void)g;
	exact4(type, p, j, half, quad, v, w);
	store_four(type, p, 32 * j + 4 * (size_t)quad, half, w);
}

/* Pairs of F16, rounded. */
PI wide_i
pairs_f16(wide_i v)
{
#ifdef __AVX512F__
	__m512 even = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
	__m512 odd = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(
	    _mm512_srli_epi32(v, 16)));
#else
	const __m256i apart = _mm256_broadcastsi128_si256(_mm_setr_epi8(
	    0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
	__m256i t = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, apart),
	    0xd8);
	__m256 even = _mm256_cvtph_ps(_mm256_castsi256_si128(t));
	__m256 odd = _mm256_cvtph_ps(_mm256_extracti128_si256(t, 1));
#endif

	return W(srli_epi32)((wide_i)round_bf16(even), 16) |
	    (wide_i)round_bf16(odd);
}

/* Pairs of BF16; those below QWEN_BF16_WEIGHT_LEAST are 0. */
PI wide_i
pairs_bf16(wide_i v)
{
	typedef int16_t words __attribute__((vector_size(sizeof(wide_i))));
	const int16_t least = (127 - 52) << 7;

	return v & (wide_i)(((words)v & 0x7fff) >= least);
}

/* A group of F16 or BF16, LANES rows; what comes next is asked for. */
PI void
unpack_16_bits(uint32_t type, const unsigned char *const *row, struct panel *p,
    int half, struct ahead *ahead)
{
	wide_i o[TURN];
	size_t k;
	int i;

	for (k = 0; k < QWEN_GROUP; k += 2 * TURN) {
		fetch_ahead(ahead);
		turn(row, k * sizeof(uint16_t), o);
		UNROLL
		for (i = 0; i < TURN; i++)
			o[i] = type == QT_F16 ? pairs_f16(o[i]) :
			    pairs_bf16(o[i]);
		UNROLL
		for (i = 0; i < TURN; i += 2)
			store_pairs(p, k + 2 * (size_t)i, half, o[i],
			    o[i + 1]);
	}
}

/* A group of any format. */
PI void
unpack_any(uint32_t type, const unsigned char *const *row, struct panel *p,
    int half, struct ahead *ahead)
{
	if (type == QT_F16 || type == QT_BF16)
		unpack_16_bits(type, row, p, half, ahead);
	else
		unpack(type, row, p, 0, half);
}

#endif
