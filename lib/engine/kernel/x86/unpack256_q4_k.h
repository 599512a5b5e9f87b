/* SPDX-License-Identifier: ISC */
/* unpack256_q4_k.h - 8 rows of Q4_K into half a panel, through store_quad(). */
#include "engine/kernel/x86/unpack256_k4.h"

PI void
unpack8(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m256i m4 = _mm256_set1_epi8(15);
	__m256i v[4];
	size_t k;
	int i;

	unpack_scales(p, to, g, half);
	for (k = 0; k < 8; k++) {
		const size_t j = k / 2 * 2;
		const int quad = (int)(k % 2) * 4;

		turn4_at(p, 16 + 16 * k, v);
		UNROLL
		for (i = 0; i < 4; i++) {
			store_quad(to, g, j, half, quad + i,
			    _mm256_and_si256(v[i], m4));
			store_quad(to, g, j + 1, half, quad + i,
			    _mm256_and_si256(_mm256_srli_epi16(v[i], 4), m4));
		}
	}
}
