/* SPDX-License-Identifier: ISC */
/*
 * formats.h - 256 weights as integers, and their scales.  The type is a
 * constant wherever one of these is called.
 */
#ifndef QWEN_ARM_FORMATS_H
#define QWEN_ARM_FORMATS_H

#include "engine/kernel/arm/dot.h"

/* Bytes of 256 weights. */
AI size_t
bytes_of(uint32_t type)
{
	return type == QT_Q4_K ? 144 : type == QT_Q5_K ? 176 :
	    type == QT_Q6_K ? 210 : 8 * 34;
}

/* Weights under an integer scale. */
AI int
sub_of(uint32_t type)
{
	return type == QT_Q6_K ? 16 : 32;
}

AI int
has_min(uint32_t type)
{
	return type == QT_Q4_K || type == QT_Q5_K;
}

/* Where d is; dmin comes after it if there is one. */
AI size_t
d_at(uint32_t type)
{
	return type == QT_Q6_K ? 208 : 0;
}

AI size_t
dmin_at(uint32_t type)
{
	return has_min(type) ? 2 : d_at(type);
}

/* ---- Q4_K and Q5_K: d, dmin, eight 6-bit scales and minimums */

AI int16x8_t
widen8(uint32_t lo, uint32_t hi)
{
	return vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(lo |
	    (uint64_t)hi << 32)));
}

AI void
scales_k4(const unsigned char *p, int16x8_t *scale, int16x8_t *min)
{
	uint32_t u[3];

	memcpy(u, p + 4, sizeof u);
	scale[0] = widen8(u[0] & 0x3f3f3f3f, (u[2] & 0x0f0f0f0f) |
	    (u[0] >> 2 & 0x30303030));
	*min = widen8(u[1] & 0x3f3f3f3f, (u[2] >> 4 & 0x0f0f0f0f) |
	    (u[1] >> 2 & 0x30303030));
}

AI void
weights_q4_k(const unsigned char *p, int8x16_t *w)
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

AI void
weights_q5_k(const unsigned char *p, int8x16_t *w)
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

/* ---- Q6_K: -32 .. 31, under 16 scales */

AI int8x16_t
centre(uint8x16_t low, uint8x16_t high)
{
	return vsubq_s8(vreinterpretq_s8_u8(vorrq_u8(low, vandq_u8(high,
	    vdupq_n_u8(0x30)))), vdupq_n_s8(32));
}

AI void
weights_q6_k(const unsigned char *p, int8x16_t *w)
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
scales_q6_k(const unsigned char *p, int16x8_t *scale, int16x8_t *min)
{
	int8x16_t s = vld1q_s8((const int8_t *)p + 192);

	scale[0] = vmovl_s8(vget_low_s8(s));
	scale[1] = vmovl_s8(vget_high_s8(s));
	*min = vdupq_n_s16(0);
}

/* ---- Q8_0: eight blocks, a d and 32 integers each */

AI void
weights_q8_0(const unsigned char *p, int8x16_t *w)
{
	int i;

	for (i = 0; i < 16; i++)
		w[i] = vld1q_s8((const int8_t *)p + i / 2 * 34 + 2 +
		    i % 2 * 16);
}

/* ---- all of them */

AI void
weights(uint32_t type, const unsigned char *p, int8x16_t *w)
{
	switch (type) {
	case QT_Q4_K:
		weights_q4_k(p, w);
		break;
	case QT_Q5_K:
		weights_q5_k(p, w);
		break;
	case QT_Q6_K:
		weights_q6_k(p, w);
		break;
	default:
		weights_q8_0(p, w);
	}
}

/* Eight scales and minimums, or 16 scales; not of Q8_0. */
AI void
scales(uint32_t type, const unsigned char *p, int16x8_t *scale,
    int16x8_t *min)
{
	if (type == QT_Q6_K)
		scales_q6_k(p, scale, min);
	else
		scales_k4(p, scale, min);
}

#endif
