/* SPDX-License-Identifier: ISC */
/* unpack_q8_0.h - 16 rows of Q8_0 into half a panel, through store_quad(). */
#include "engine/kernel/x86/unpack.h"

PI void
unpack16(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m512i flip = _mm512_set1_epi8((char)0x80);
	const unsigned char *q[16];
	__m512i v[8];
	size_t j;
	int i;

	for (j = 0; j < 8; j++) {
		_mm512_store_ps(to->d[g][j] + 16 * half, load_d16(p, 34 * j));
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 34 * j + 2;
		turn8(q, v);
		UNROLL
		for (i = 0; i < 8; i++)
			store_quad(to, g, j, half, i,
			    _mm512_xor_si512(v[i], flip));
	}
}
