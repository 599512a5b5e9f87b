/* SPDX-License-Identifier: ISC */
/* dequant_q8_0.h - 16 rows of Q8_0, for dequant.h. */
#define SCALE_QUADS 8
#include "engine/kernel/x86/dequant.h"

/* Weights come 128 too large. */
PI void
prepare(struct panel *p, size_t j, int part, int half)
{
	__m512 mul = _mm512_load_ps(p->d[0][j] + 16 * half);

	(void)part;
	_mm512_store_ps(p->mul[j] + 16 * half, mul);
	_mm512_store_ps(p->add[j] + 16 * half, _mm512_mul_ps(mul,
	    _mm512_set1_ps(-128.0f)));
}

#include "engine/kernel/x86/unpack_q8_0.h"
