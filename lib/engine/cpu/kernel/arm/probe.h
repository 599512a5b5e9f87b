/* SPDX-License-Identifier: ISC */
/*
 * probe.h - 128-bit registers for ../probe.h: four chains for each of four
 * pipes.
 */
#include "engine/cpu/kernel/arm/dot.h"

enum { CHAINS = 16 };

#define EACH_CHAIN SIXTEEN
#define UNKNOWN(x) __asm__ volatile("" : "+w"(x))

typedef int32x4_t vec_i;
typedef float32x4_t vec_f;

AI vec_i step(vec_i s, int8x16_t a, int8x16_t b);

AI vec_i
int8_step(vec_i s, vec_i a, vec_i b)
{
	return step(s, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}

AI vec_f
f32_step(vec_f s, vec_f a, vec_f b)
{
	return vfmaq_f32(s, a, b);
}

#include "engine/cpu/kernel/probe.h"
