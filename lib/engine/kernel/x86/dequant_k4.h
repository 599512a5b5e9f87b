/* SPDX-License-Identifier: ISC */
/* dequant_k4.h - scales and minimums of Q4_K and Q5_K, for dequant.h. */
#define SCALE_QUADS 8
#include "engine/kernel/x86/dequant.h"

PI void
prepare(struct panel *p, size_t j, int part, int half)
{
	__m512i min = _mm512_srl_epi32(_mm512_load_si512(p->min[0][j / 2] +
	    16 * half), _mm_cvtsi32_si128(j % 2 ? 16 : 0));
	__m512 m = _mm512_cvtepi32_ps(_mm512_and_si512(min,
	    _mm512_set1_epi32(0xffff)));

	(void)part;
	_mm512_store_ps(p->mul[j] + 16 * half, _mm512_mul_ps(
	    _mm512_load_ps(p->d[0][0] + 16 * half), _mm512_cvtepi32_ps(
	    _mm512_load_si512(p->scale[0][j] + 16 * half))));
	_mm512_store_ps(p->add[j] + 16 * half, _mm512_fnmadd_ps(
	    _mm512_load_ps(p->dmin[0] + 16 * half), m,
	    _mm512_setzero_ps()));
}
