/* SPDX-License-Identifier: ISC */
/*
 * dot.h - products of 8-bit integers on arm64: SDOT if the file is compiled for
 * it (*_dotprod.c, *_i8mm.c), else plain NEON.  Sums are exact, so both give
 * the same result.
 */
#ifndef QWEN_ARM_DOT_H
#define QWEN_ARM_DOT_H

#include <arm_neon.h>
#include <string.h>

#include "engine/cpu/kernel/kernel.h"

#define AI static inline __attribute__((always_inline, unused))

/* For loops that index arrays of registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/*
 * Adds 16 products to acc; the distribution over the lanes depends on the
 * instruction.  Without SDOT two products are added in int16: at most 2 * 128 *
 * 127.
 */
AI int32x4_t
dot16(int32x4_t acc, int8x16_t w, int8x16_t x)
{
#if defined(__ARM_FEATURE_DOTPROD)
	return vdotq_s32(acc, w, x);
#else
	return vpadalq_s16(acc, vmlal_s8(vmull_s8(vget_low_s8(w),
	    vget_low_s8(x)), vget_high_s8(w), vget_high_s8(x)));
#endif
}

/* Returns the sums of four vectors, one per lane. */
AI int32x4_t
sum4x4(const int32x4_t *v)
{
	return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}

#endif
