/* SPDX-License-Identifier: ISC */
/*
 * unpack256_q8_0.h - 8 rows of Q8_0 into half a panel, through store_quad(),
 * bytes with the bits of FLIP turned.
 */
#include "engine/kernel/x86/unpack256.h"

PI void
unpack8(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m256i flip = _mm256_set1_epi8((char)FLIP);
	__m256i v[4];
	size_t j, k;
	int i;

	for (j = 0; j < 8; j++) {
		_mm256_store_ps(to->d[g][j] + 8 * half, load_d8(p, 34 * j));
		for (k = 0; k < 2; k++) {
			turn4_at(p, 34 * j + 2 + 16 * k, v);
			UNROLL
			for (i = 0; i < 4; i++)
				store_quad(to, g, j, half, 4 * (int)k + i,
				    _mm256_xor_si256(v[i], flip));
		}
	}
}
