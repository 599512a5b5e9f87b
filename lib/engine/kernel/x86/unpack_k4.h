/* SPDX-License-Identifier: ISC */
/* unpack_k4.h - eight 6-bit scales and minimums of Q4_K and Q5_K. */
#include "engine/kernel/x86/unpack.h"

/* The scale of 32-block j of group g, 16 rows of dwords; k is 0. */
PI void store_scale(struct panel *p, size_t g, size_t j, size_t k, int half,
    __m512i v);

/* d, dmin, scales and minimums: the first 16 bytes of 16 rows' blocks. */
PI void
unpack_scales(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m512i m6 = _mm512_set1_epi32(0x3f3f3f3f);
	const __m512i m4 = _mm512_set1_epi32(0x0f0f0f0f);
	const __m512i m2 = _mm512_set1_epi32(0x30303030);
	const __m512i byte = _mm512_set1_epi32(255);
	__m512i h[4], s[2], n[2];
	int i, j;

	turn4(p, h);
	_mm512_store_ps(to->d[g][0] + 16 * half, low_f16(h[0]));
	_mm512_store_ps(to->dmin[g] + 16 * half,
	    low_f16(_mm512_srli_epi32(h[0], 16)));
	s[0] = _mm512_and_si512(h[1], m6);
	n[0] = _mm512_and_si512(h[2], m6);
	s[1] = _mm512_or_si512(_mm512_and_si512(h[3], m4),
	    _mm512_and_si512(_mm512_srli_epi32(h[1], 2), m2));
	n[1] = _mm512_or_si512(
	    _mm512_and_si512(_mm512_srli_epi32(h[3], 4), m4),
	    _mm512_and_si512(_mm512_srli_epi32(h[2], 2), m2));
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++)
			store_scale(to, g, (size_t)(4 * i + j), 0, half,
			    _mm512_and_si512(_mm512_srli_epi32(s[i],
			    (unsigned)(8 * j)), byte));
		/* bytes 0 and 1, then 2 and 3, as a pair of int16 */
		for (j = 0; j < 2; j++) {
			__m512i v = _mm512_srli_epi32(n[i],
			    (unsigned)(16 * j));

			_mm512_store_si512(to->min[g][2 * i + j] + 16 * half,
			    _mm512_or_si512(_mm512_and_si512(v, byte),
			    _mm512_and_si512(_mm512_slli_epi32(v, 8),
			    _mm512_set1_epi32(0xff0000))));
		}
	}
}
