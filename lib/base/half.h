/* SPDX-License-Identifier: ISC */
/* half.h - IEEE binary16 and bfloat16 to and from f32, bit by bit. */
#ifndef QWEN_BASE_HALF_H
#define QWEN_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline float
qwen_bits_f32(uint32_t u)
{
	float f;

	memcpy(&f, &u, sizeof f);
	return f;
}

static inline uint32_t
qwen_f32_bits(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	return u;
}

/* Exact, also for subnormals; keeps a NaN's payload, made quiet. */
static inline float
qwen_f16_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	uint32_t exp = (h >> 10) & 31, man = h & 0x3ff;

	if (exp == 31)
		return qwen_bits_f32(sign | 0x7f800000 | man << 13 |
		    (man != 0 ? 0x400000 : 0));
	if (exp == 0) {		/* man * 2^-24, exact in f32 */
		float f = (float)man * 0x1p-24f;

		return sign ? -f : f;
	}
	return qwen_bits_f32(sign | (exp + 112) << 23 | man << 13);
}

/* Rounds to nearest, ties to even; overflow gives infinity (VCVTPS2PH). */
static inline uint16_t
qwen_f32_f16(float f)
{
	uint32_t u = qwen_f32_bits(f), sign = (u >> 16) & 0x8000;
	uint32_t a = u & 0x7fffffff;

	if (a > 0x7f800000)
		return (uint16_t)(sign | 0x7e00 | ((a >> 13) & 0x3ff));
	if (a >= 0x477ff000)	/* 65520 and above */
		return (uint16_t)(sign | 0x7c00);
	if (a < 0x38800000) {	/* below 2^-14: a multiple of 2^-24 */
		/* adding 0.5 leaves the multiple in the low mantissa bits */
		uint32_t r = qwen_f32_bits(qwen_bits_f32(a) + 0.5f);

		return (uint16_t)(sign | (r - 0x3f000000));
	}
	a += 0xc8000fff + ((a >> 13) & 1);
	return (uint16_t)(sign | a >> 13);
}

static inline float
qwen_bf16_f32(uint16_t h)
{
	return qwen_bits_f32((uint32_t)h << 16);
}

/* Rounds to nearest, ties to even; a NaN stays a NaN. */
static inline uint16_t
qwen_f32_bf16(float f)
{
	uint32_t u = qwen_f32_bits(f);

	if ((u & 0x7fffffff) > 0x7f800000)
		return (uint16_t)(u >> 16 | 0x40);
	return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

#endif
