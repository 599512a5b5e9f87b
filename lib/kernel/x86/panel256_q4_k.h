/* SPDX-License-Identifier: ISC */
/* panel256_q4_k.h - panels of Q4_K in 256-bit registers. */
#define BLOCK_BYTES 144
#define MOST 8			/* 16 * 15 * 127 = 30480 */
#include "kernel/x86/panel256_k4.h"

PI void
unpack8(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m256i m4 = _mm256_set1_epi8(15);
	__m256i v[4];
	size_t k;
	int i;

	unpack_scales(p, to, g, half);
	for (k = 0; k < 8; k++) {
		uint8_t (*lo)[2][32] = to->w[g][k / 2 * 2] + k % 2 * 4;
		uint8_t (*hi)[2][32] = to->w[g][k / 2 * 2 + 1] + k % 2 * 4;

		turn4_at(p, 16 + 16 * k, v);
		UNROLL
		for (i = 0; i < 4; i++) {
			store8(lo[i][half], _mm256_and_si256(v[i], m4));
			store8(hi[i][half], _mm256_and_si256(
			    _mm256_srli_epi16(v[i], 4), m4));
		}
	}
}
