/* SPDX-License-Identifier: ISC */
/* dequant_q6_k.h - 16 rows of Q6_K, for dequant.h. */
#define SCALE_QUADS 4
#include "engine/kernel/x86/dequant.h"

/* Weights come 32 too large. */
PI void
prepare(struct panel *p, size_t j, int part, int half)
{
	__m512 d = _mm512_load_ps(p->d[0][0] + 16 * half);
	__m512 mul = _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_load_si512(
	    p->scale[0][2 * j + (size_t)part] + 16 * half)));

	_mm512_store_ps(p->mul[j] + 16 * half, mul);
	_mm512_store_ps(p->add[j] + 16 * half, _mm512_mul_ps(mul,
	    _mm512_set1_ps(-32.0f)));
}

#include "engine/kernel/x86/unpack_q6_k.h"
