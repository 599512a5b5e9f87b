/* SPDX-License-Identifier: ISC */
/*
 * dequant512.h - weights of 16 rows as bf16, from the quads that the functions
 * of unpack512.h make: for numerics version 2.
 *
 * A weight is fma(mul, v, add) of its byte v: its format's definition rounds
 * the product and the difference, but with these widths the product is exact
 * (11 bits of d, 6 or 8 of a scale, 8 or 6 of v), so it is one rounding.
 */
#ifndef QWEN_KERNEL_DEQUANT512_H
#define QWEN_KERNEL_DEQUANT512_H

#include "engine/kernel/x86/base.h"

/* A group under way.  The including file gives store_quad(), by dequant4(). */
struct panel {
	void	*to;		/* where its weights go */
	/* as unpack512.h wants them, for the one group */
	int32_t	scale[16][32];
	int32_t	min[1][4][32];
	float	d[1][8][32];
	float	dmin[1][32];
	/* of the 32-blocks under way */
	float	mul[8][32];
	float	add[8][32];
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack512.h"

PI void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m512i v)
{
	(void)g;
	_mm512_store_si512(p->scale[type == QT_Q6_K ? 2 * j + k : j] +
	    16 * half, v);
}

/*
 * mul and add of 32-block j: of all of it, or of one part of two where a scale
 * is for 16 columns.
 */
PI void
prepare_k4(struct panel *p, size_t j, int half)
{
	__m512i min = _mm512_srl_epi32(_mm512_load_si512(p->min[0][j / 2] +
	    16 * half), _mm_cvtsi32_si128(j % 2 ? 16 : 0));
	__m512 m = _mm512_cvtepi32_ps(_mm512_and_si512(min,
	    _mm512_set1_epi32(0xffff)));

	_mm512_store_ps(p->mul[j] + 16 * half, _mm512_mul_ps(
	    _mm512_load_ps(p->d[0][0] + 16 * half), _mm512_cvtepi32_ps(
	    _mm512_load_si512(p->scale[j] + 16 * half))));
	_mm512_store_ps(p->add[j] + 16 * half, _mm512_fnmadd_ps(
	    _mm512_load_ps(p->dmin[0] + 16 * half), m,
	    _mm512_setzero_ps()));
}

/* Weights come 32 too large. */
PI void
prepare_q6_k(struct panel *p, size_t j, int part, int half)
{
	__m512 d = _mm512_load_ps(p->d[0][0] + 16 * half);
	__m512 mul = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_load_si512(
	    p->scale[2 * j + (size_t)part] + 16 * half)));

	_mm512_store_ps(p->mul[j] + 16 * half, mul);
	_mm512_store_ps(p->add[j] + 16 * half, _mm512_mul_ps(mul,
	    _mm512_set1_ps(-32.0f)));
}

/* Weights are signed bytes, turned to 0 .. 255: 128 too large. */
PI void
prepare_q8_0(struct panel *p, size_t j, int half)
{
	__m512 mul = _mm512_load_ps(p->d[0][j] + 16 * half);

	_mm512_store_ps(p->mul[j] + 16 * half, mul);
	_mm512_store_ps(p->add[j] + 16 * half, _mm512_mul_ps(mul,
	    _mm512_set1_ps(-128.0f)));
}

/*
 * To nearest even in the upper 16 bits: with m = 1.5 * 2^16 times the power of
 * two in x, m + x has its last bit where that of the bf16 is.
 */
PI __m512
round_bf16(__m512 x)
{
	const __m512 k = _mm512_set1_ps(0x1.8p16f);
	__m512 m = _mm512_castsi512_ps(_mm512_and_si512(
	    _mm512_castps_si512(x), _mm512_set1_epi32((int)0xff800000)));

	return _mm512_fnmadd_ps(m, k, _mm512_fmadd_ps(m, k, x));
}

/* Byte i of the dwords of v, as f32. */
PI __m512
byte_f32(__m512i v, int i)
{
	const __m512i at = _mm512_set1_epi32((int)0x80808000);
	const __m512i lane = _mm512_broadcast_i32x4(
	    _mm_setr_epi32(0, 4, 8, 12));

	return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(v, _mm512_or_si512(at,
	    _mm512_add_epi32(lane, _mm512_set1_epi32(i)))));
}

/* A quad's four columns. */
PI void
dequant4(uint32_t type, struct panel *p, size_t j, int half, int quad,
    __m512i v, __m512 *w)
{
	__m512 mul, add;
	int i;

	if (type == QT_Q8_0)
		v = _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80));
	if (type == QT_Q6_K && quad % 4 == 0)
		prepare_q6_k(p, j, quad / 4, half);
	else if (type == QT_Q8_0 && quad == 0)
		prepare_q8_0(p, j, half);
	else if (quad == 0)
		prepare_k4(p, j, half);
	mul = _mm512_load_ps(p->mul[j] + 16 * half);
	add = _mm512_load_ps(p->add[j] + 16 * half);
	UNROLL
	for (i = 0; i < 4; i++)
		w[i] = round_bf16(_mm512_fmadd_ps(mul, byte_f32(v, i), add));
}

#endif
