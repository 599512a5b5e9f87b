/* SPDX-License-Identifier: ISC */
/* q6_k.h - a block of Q6_K as 256 integers, -32 .. 31, under 16 scales. */
#include "engine/kernel/arm/dot.h"

#define BLOCK_BYTES 210
#define SUB 16			/* weights under an integer scale */
#define HAS_MIN 0
#define D_AT 208
#define DMIN_AT 208		/* there is none */

AI int8x16_t
centre(uint8x16_t low, uint8x16_t high)
{
	return vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(low, vandq_u8(high,
	    vdupq_n_u8(0x30)))), vdupq_n_s8(32));
}

AI void
weights(const unsigned char *p, int8x16_t *w)
{
	const uint8x16_t m4 = vdupq_n_u8(15);
	int i;

	for (i = 0; i < 4; i++) {	/* 16 of every 32 in a half */
		const unsigned char *at = p + i / 2 * 64 + i % 2 * 16;
		uint8x16_t a = vld1q_u8(at), b = vld1q_u8(at + 32);
		uint8x16_t h = vld1q_u8(p + 128 + 16 * i);
		int8x16_t *to = w + i / 2 * 8 + i % 2;

		to[0] = centre(vandq_u8(a, m4), vshlq_n_u8(h, 4));
		to[2] = centre(vandq_u8(b, m4), vshlq_n_u8(h, 2));
		to[4] = centre(vshrq_n_u8(a, 4), h);
		to[6] = centre(vshrq_n_u8(b, 4), vshrq_n_u8(h, 2));
	}
}

AI void
scales(const unsigned char *p, int16x8_t *scale, int16x8_t *min)
{
	int8x16_t s = vld1q_s8((const int8_t *)p + 192);

	scale[0] = vmovl_s8(vget_low_s8(s));
	scale[1] = vmovl_s8(vget_high_s8(s));
	*min = vdupq_n_s16(0);
}
