/* SPDX-License-Identifier: ISC */
/* dequant256_k4.h - scales and minimums of Q4_K and Q5_K, for dequant256.h. */
#define SCALE_QUADS 8
#include "engine/kernel/x86/dequant256.h"

PI void
prepare(struct panel *p, size_t j, int part, int half)
{
	__m256i min = _mm256_srl_epi32(load8(p->min[0][j / 2] + 8 * half),
	    _mm_cvtsi32_si128(j % 2 ? 16 : 0));
	__m256 m = _mm256_cvtepi32_ps(_mm256_and_si256(min,
	    _mm256_set1_epi32(0xffff)));

	(void)part;
	_mm256_store_ps(p->mul[j] + 8 * half, _mm256_mul_ps(
	    _mm256_load_ps(p->d[0][0] + 8 * half),
	    scales_f32(p->scale[0][j] + 8 * half)));
	_mm256_store_ps(p->add[j] + 8 * half, _mm256_fnmadd_ps(
	    _mm256_load_ps(p->dmin[0] + 8 * half), m, _mm256_setzero_ps()));
}
