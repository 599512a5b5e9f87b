/* SPDX-License-Identifier: ISC */
/* q5_k.h - a block of Q5_K as 256 integers. */
#include "engine/kernel/arm/k4.h"

#define BLOCK_BYTES 176

AI void
weights(const unsigned char *p, int8x16_t *w)
{
	const uint8x16_t m4 = vdupq_n_u8(15), bit = vdupq_n_u8(16);
	uint8x16_t h[2];
	int i;

	/* the fifth bit of the next 32 weights comes to bit 0 */
	h[0] = vld1q_u8(p + 16);
	h[1] = vld1q_u8(p + 32);
	for (i = 0; i < 8; i++) {
		uint8x16_t q = vld1q_u8(p + 48 + 16 * i), *b = h + i % 2;
		int8x16_t *to = w + i / 2 * 4 + i % 2;

		to[0] = vreinterpretq_s8_u8(vorrq_u8(vandq_u8(q, m4),
		    vandq_u8(vshlq_n_u8(*b, 4), bit)));
		to[2] = vreinterpretq_s8_u8(vorrq_u8(vshrq_n_u8(q, 4),
		    vandq_u8(vshlq_n_u8(*b, 3), bit)));
		*b = vshrq_n_u8(*b, 2);
	}
}
