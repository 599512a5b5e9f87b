/* SPDX-License-Identifier: ISC */
/*
 * dequant256.h - dequant.h in 256-bit registers: weights of 8 rows as bf16,
 * from the quads that unpack8() of a format makes.
 */
#include "engine/kernel/x86/panel_v2_256.h"

/* mul and add of 32-block j, from its so manyth scale on. */
PI void prepare(struct panel *p, size_t j, int part, int half);

/* To nearest even in the upper 16 bits: see dequant.h. */
PI __m256
round_bf16(__m256 x)
{
	const __m256 k = _mm256_set1_ps(0x1.8p16f);
	__m256 m = _mm256_and_ps(x, _mm256_castsi256_ps(
	    _mm256_set1_epi32((int)0xff800000)));

	return _mm256_fnmadd_ps(m, k, _mm256_fmadd_ps(m, k, x));
}

/* Byte i of the dwords of v, as f32. */
PI __m256
byte_f32(__m256i v, int i)
{
	return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(v,
	    8 * i), _mm256_set1_epi32(255)));
}

/* The scales of 8 rows, which are in both halves of their dwords. */
PI __m256
scales_f32(const int32_t *p)
{
	return _mm256_cvtepi32_ps(_mm256_srai_epi32(load8(p), 16));
}

PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m256i v)
{
	float (*to)[PARTS][16] = p->w + 32 * j + 4 * (size_t)quad;
	__m256 mul, add;
	int i;

	(void)g;
	if (quad % SCALE_QUADS == 0)
		prepare(p, j, quad / SCALE_QUADS, half);
	mul = _mm256_load_ps(p->mul[j] + 8 * half);
	add = _mm256_load_ps(p->add[j] + 8 * half);
	UNROLL
	for (i = 0; i < 4; i++)
		_mm256_store_ps(to[i][0] + 8 * half, round_bf16(
		    _mm256_fmadd_ps(mul, byte_f32(v, i), add)));
}
