/* SPDX-License-Identifier: ISC */
/* unpack_q4_k.h - 16 rows of Q4_K into half a panel, through store_quad(). */
#include "engine/kernel/x86/unpack_k4.h"

PI void
unpack16(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m512i m4 = _mm512_set1_epi8(15);
	const unsigned char *q[16];
	__m512i v[8];
	size_t j;
	int i;

	unpack_scales(p, to, g, half);
	for (j = 0; j < 4; j++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 16 + 32 * j;
		turn8(q, v);
		UNROLL
		for (i = 0; i < 8; i++) {
			store_quad(to, g, 2 * j, half, i,
			    _mm512_and_si512(v[i], m4));
			store_quad(to, g, 2 * j + 1, half, i,
			    _mm512_and_si512(_mm512_srli_epi16(v[i], 4), m4));
		}
	}
}
