/* SPDX-License-Identifier: ISC */
/* unpack_q5_k.h - 16 rows of Q5_K into half a panel, through store_quad(). */
#include "engine/kernel/x86/unpack_k4.h"

/* nibbles with the bits of h that the mask selects moved to bit 4 */
PI __m512i
with_bit(__m512i nibbles, __m512i h, unsigned bit)
{
	const __m512i m1 = _mm512_set1_epi8(1);

	return _mm512_or_si512(nibbles, _mm512_slli_epi16(
	    _mm512_and_si512(_mm512_srli_epi16(h, bit), m1), 4));
}

PI void
unpack16(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m512i m4 = _mm512_set1_epi8(15);
	const unsigned char *q[16];
	__m512i v[8], h[8];
	size_t j;
	int i;

	unpack_scales(p, to, g, half);
	for (i = 0; i < 16; i++)
		q[i] = p[i] + 16;
	turn8(q, h);
	for (j = 0; j < 4; j++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 48 + 32 * j;
		turn8(q, v);
		UNROLL
		for (i = 0; i < 8; i++) {
			store_quad(to, g, 2 * j, half, i,
			    with_bit(_mm512_and_si512(v[i], m4), h[i],
			    (unsigned)(2 * j)));
			store_quad(to, g, 2 * j + 1, half, i,
			    with_bit(_mm512_and_si512(
			    _mm512_srli_epi16(v[i], 4), m4), h[i],
			    (unsigned)(2 * j + 1)));
		}
	}
}
