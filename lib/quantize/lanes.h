/* SPDX-License-Identifier: ISC */
/*
 * lanes.h - computes sixteen blocks at a time, one per lane (static inline
 * only).
 *
 * The numbers of a lane are added in their order, as in plain C: the result
 * does not depend on the number of lanes in a register.
 */
#ifndef QWEN_QUANTIZE_LANES_H
#define QWEN_QUANTIZE_LANES_H

#include <math.h>
#include <stdint.h>

#if defined __AVX512F__
#include <immintrin.h>
#define LANES 16
#elif defined __AVX__
#include <immintrin.h>
#define LANES 8
#elif defined __SSE2__
#include <emmintrin.h>
#define LANES 4
#elif defined __ARM_NEON
#include <arm_neon.h>
#define LANES 4
#else
#define LANES 4
#endif

enum { WIDE = 16 };		/* blocks at a time */

typedef float lanes __attribute__((vector_size(4 * LANES), may_alias));
typedef int32_t masks __attribute__((vector_size(4 * LANES), may_alias));

#define ALIGNED __attribute__((aligned(64)))
#define INLINE static inline __attribute__((always_inline, unused))

struct wide {
	float	v[WIDE];
} ALIGNED;

INLINE struct wide
everywhere(float f)
{
	struct wide w;
	int l;

	for (l = 0; l < WIDE; l++)
		w.v[l] = f;
	return w;
}

/* n numbers of each block, x[k][block], and the weights of their errors. */
struct tile {
	float	x[32][WIDE] ALIGNED;
	float	w[32][WIDE] ALIGNED;
};

INLINE lanes
at(const float *p)
{
	return *(const lanes *)p;
}

INLINE void
put(float *p, lanes v)
{
	*(lanes *)p = v;
}

INLINE lanes
all(float f)
{
	return f - (lanes){ 0 };
}

INLINE lanes
least(lanes a, lanes b)
{
#if defined __AVX512F__
	return (lanes)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined __AVX__
	return (lanes)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
	return (lanes)_mm_min_ps((__m128)a, (__m128)b);
#else
	masks m = a < b;

	return (lanes)((m & (masks)a) | (~m & (masks)b));
#endif
}

INLINE lanes
most(lanes a, lanes b)
{
#if defined __AVX512F__
	return (lanes)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __AVX__
	return (lanes)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
	return (lanes)_mm_max_ps((__m128)a, (__m128)b);
#else
	masks m = a > b;

	return (lanes)((m & (masks)a) | (~m & (masks)b));
#endif
}

/* Returns a where m is set, else b. */
INLINE lanes
pick(masks m, lanes a, lanes b)
{
	return (lanes)((m & (masks)a) | (~m & (masks)b));
}

/* Rounds to the nearest integer, ties to even; |v| < 2^22. */
INLINE lanes
nearest(lanes v)
{
	return (v + 0x1.8p23f) - 0x1.8p23f;
}

INLINE float
nearest1(float v)
{
	return (v + 0x1.8p23f) - 0x1.8p23f;
}

/* Returns 1 / s; 0 if |s| is 1e-30 or less. */
INLINE float
inverse(float s)
{
	return fabsf(s) > 1e-30f ? 1.0f / s : 0.0f;
}

INLINE lanes
inverses(lanes s)
{
	masks some = (s > 1e-30f) | (s < -1e-30f);

	return (lanes)(some & (masks)(1.0f / pick(some, s, all(1.0f))));
}

#endif
