/* SPDX-License-Identifier: ISC */
/* q4_k.h - a block of Q4_K as 256 integers. */
#include "engine/kernel/arm/k4.h"

#define BLOCK_BYTES 144

AI void
weights(const unsigned char *p, int8x16_t *w)
{
	const uint8x16_t m4 = vdupq_n_u8(15);
	int i;

	for (i = 0; i < 8; i++) {
		uint8x16_t q = vld1q_u8(p + 16 + 16 * i);
		int8x16_t *to = w + i / 2 * 4 + i % 2;

		to[0] = vreinterpretq_s8_u8(vandq_u8(q, m4));
		to[2] = vreinterpretq_s8_u8(vshrq_n_u8(q, 4));
	}
}
