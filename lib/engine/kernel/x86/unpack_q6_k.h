/* SPDX-License-Identifier: ISC */
/* unpack_q6_k.h - 16 rows of Q6_K into half a panel, through store_quad(). */
#include "engine/kernel/x86/unpack.h"

/* Scale k, 0 or 1, of 32-block j of group g: 16 rows of dwords. */
PI void store_scale(struct panel *p, size_t g, size_t j, size_t k, int half,
    __m512i v);

/* Sixteen signed scales, through store_scale(). */
PI void
unpack_scales(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const unsigned char *s[16];
	__m512i v[4];
	size_t i, j;

	for (i = 0; i < 16; i++)
		s[i] = p[i] + 192;
	turn4(s, v);
	for (i = 0; i < 4; i++)
		for (j = 0; j < 4; j++)
			store_scale(to, g, 2 * i + j / 2, j % 2, half,
			    _mm512_srai_epi32(_mm512_slli_epi32(v[i],
			    (unsigned)(24 - 8 * j)), 24));
	_mm512_store_ps(to->d[g][0] + 16 * half, load_d16(p, 208));
}

PI void
unpack16(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m512i m4 = _mm512_set1_epi8(15), m2 = _mm512_set1_epi8(0x30);
	const unsigned char *q[16];
	__m512i a[8], b[8], h[8];
	size_t k;
	int i;

	unpack_scales(p, to, g, half);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 64 * k;
		turn8(q, a);
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 64 * k + 32;
		turn8(q, b);
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 128 + 32 * k;
		turn8(q, h);
#define PUT(j, nibbles, high)						\
	store_quad(to, g, 4 * k + (j), half, i, _mm512_or_si512(	\
	    _mm512_and_si512(nibbles, m4), _mm512_and_si512(high, m2)))
		UNROLL
		for (i = 0; i < 8; i++) {
			PUT(0, a[i], _mm512_slli_epi16(h[i], 4));
			PUT(1, b[i], _mm512_slli_epi16(h[i], 2));
			PUT(2, _mm512_srli_epi16(a[i], 4), h[i]);
			PUT(3, _mm512_srli_epi16(b[i], 4),
			    _mm512_srli_epi16(h[i], 2));
		}
#undef PUT
	}
}
