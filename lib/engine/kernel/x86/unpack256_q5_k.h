/* SPDX-License-Identifier: ISC */
/* unpack256_q5_k.h - 8 rows of Q5_K into half a panel, through store_quad(). */
#include "engine/kernel/x86/unpack256_k4.h"

/* nibbles with the given bits of h moved to bit 4 */
PI __m256i
with_bit(__m256i nibbles, __m256i h, int bit)
{
	const __m256i m1 = _mm256_set1_epi8(1);

	return _mm256_or_si256(nibbles, _mm256_slli_epi16(
	    _mm256_and_si256(_mm256_srli_epi16(h, bit), m1), 4));
}

PI void
unpack8(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m256i m4 = _mm256_set1_epi8(15);
	__m256i v[4], h[4];
	size_t k;
	int i, j;

	unpack_scales(p, to, g, half);
	for (k = 0; k < 2; k++) {
		turn4_at(p, 16 + 16 * k, h);
		for (j = 0; j < 4; j++) {
			const size_t at = 2 * (size_t)j;
			const int quad = 4 * (int)k;

			turn4_at(p, 48 + 32 * (size_t)j + 16 * k, v);
			UNROLL
			for (i = 0; i < 4; i++) {
				store_quad(to, g, at, half, quad + i, with_bit(
				    _mm256_and_si256(v[i], m4), h[i], 2 * j));
				store_quad(to, g, at + 1, half, quad + i,
				    with_bit(_mm256_and_si256(
				    _mm256_srli_epi16(v[i], 4), m4), h[i],
				    2 * j + 1));
			}
		}
	}
}
