/* SPDX-License-Identifier: ISC */
/*
 * dequant.h - weights of 16 rows as bf16, from the quads that unpack16() of a
 * format makes: for numerics version 2.
 *
 * A weight is fma(mul, v, add) of its byte v: its format's definition rounds
 * the product and the difference, but with these widths the product is exact
 * (11 bits of d, 6 or 8 of a scale, 8 or 6 of v), so it is one rounding.
 *
 * It goes behind struct panel, which has DEQUANT_MEMBERS.  A format's header
 * defines SCALE_QUADS, quads under one scale, and prepare().
 */
#include "engine/kernel/x86/dequant_members.h"
#include "engine/kernel/x86/unpack.h"

/* Scales one by one, for prepare(). */
PI void
store_scale(struct panel *p, size_t g, size_t j, size_t k, int half, __m512i v)
{
	_mm512_store_si512(p->scale[g][8 / SCALE_QUADS * j + k] + 16 * half, v);
}

/* mul and add of 32-block j, from its so manyth scale on. */
PI void prepare(struct panel *p, size_t j, int part, int half);

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
dequant4(struct panel *p, size_t j, int half, int quad, __m512i v, __m512 *w)
{
	__m512 mul, add;
	int i;

	if (quad % SCALE_QUADS == 0)
		prepare(p, j, quad / SCALE_QUADS, half);
	mul = _mm512_load_ps(p->mul[j] + 16 * half);
	add = _mm512_load_ps(p->add[j] + 16 * half);
	UNROLL
	for (i = 0; i < 4; i++)
		w[i] = round_bf16(_mm512_fmadd_ps(mul, byte_f32(v, i), add));
}
