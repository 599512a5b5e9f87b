/* SPDX-License-Identifier: ISC */
/*
 * vec.h - sixteen f32 lanes: one zmm, two ymm, four NEON registers, or an
 * array in plain C.
 *
 * The templates (*.inc) are written once in these terms and compiled for each
 * instruction set; the plain C form defines what each operation gives.  Every
 * operation rounds as IEEE 754 says, so that they agree bit by bit.  NEON,
 * which is there by default, is for the files that define VEC_NEON.
 */
#ifndef QWEN_KERNEL_VEC_H
#define QWEN_KERNEL_VEC_H

#include <string.h>

#include "base/half.h"
#include "engine/kernel/kernel.h"
#include "engine/kernel/math.h"

#define VI static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__)
#include "engine/kernel/x86/vec512.h"
#elif defined(__AVX2__)
#include "engine/kernel/x86/vec256.h"
#elif defined(VEC_NEON)
#include "engine/kernel/arm/vec_neon.h"
#else
typedef struct { float f[16]; } v16;

#define EACH(expr) do {							\
	v16 r_;								\
	int i;								\
									\
	for (i = 0; i < 16; i++)					\
		r_.f[i] = (expr);					\
	return r_;							\
} while (0)

VI v16 v_load(const float *p) { EACH(p[i]); }
VI void v_store(float *p, v16 a) { memcpy(p, a.f, sizeof a.f); }
VI v16 v_set1(float x) { EACH(x); }
VI v16 v_add(v16 a, v16 b) { EACH(a.f[i] + b.f[i]); }
VI v16 v_sub(v16 a, v16 b) { EACH(a.f[i] - b.f[i]); }
VI v16 v_mul(v16 a, v16 b) { EACH(a.f[i] * b.f[i]); }
VI v16 v_div(v16 a, v16 b) { EACH(a.f[i] / b.f[i]); }
VI v16 v_fma(v16 a, v16 b, v16 c) { EACH(fmaf(a.f[i], b.f[i], c.f[i])); }
VI v16 v_max(v16 a, v16 b) { EACH(a.f[i] > b.f[i] ? a.f[i] : b.f[i]); }
VI v16 v_load_f16(const uint16_t *p) { EACH(qwen_f16_f32(p[i])); }
VI v16 v_load_bf16(const uint16_t *p) { EACH(qwen_bf16_f32(p[i])); }
VI v16 v_exp(v16 a) { EACH(qwen_expf(a.f[i])); }
VI void
v_store_f16(uint16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 16; i++)
		p[i] = qwen_f32_f16(a.f[i]);
}
/* To nearest even; NaN stays one; what is tiny becomes 0. */
VI void
v_store_bf16(uint16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 16; i++)
		p[i] = fabsf(a.f[i]) < QWEN_BF16_LEAST ? 0 :
		    qwen_f32_bf16(a.f[i]);
}
/* The tree: lane i and i + 8, then i + 4, i + 2, i + 1. */
VI float
v_sum(v16 a)
{
	int i, n;

	for (n = 8; n > 0; n /= 2) {
		for (i = 0; i < n; i++)
			a.f[i] = a.f[i] + a.f[i + n];
	}
	return a.f[0];
}
VI float
v_hmax(v16 a)
{
	float m = a.f[0];
	int i;

	for (i = 1; i < 16; i++)
		m = a.f[i] > m ? a.f[i] : m;
	return m;
}
/* A bit for each lane: a >= b. */
VI unsigned
v_at_least(v16 a, v16 b)
{
	unsigned m = 0;
	int i;

	for (i = 0; i < 16; i++)
		m |= (unsigned)(a.f[i] >= b.f[i]) << i;
	return m;
}
/*
 * The largest magnitude of each 32 of 256, as bits: NaN and infinity come out
 * on top.
 */
VI void
v_absmax_bits(uint32_t *out, const float *x)
{
	uint32_t u;
	int i;

	for (i = 0; i < 256; i++) {
		u = qwen_f32_bits(x[i]) & 0x7fffffff;
		out[i / 32] = i % 32 == 0 || u > out[i / 32] ? u : out[i / 32];
	}
}
/* Round to nearest even within -127 .. 127. */
VI void
v_store_i8(int8_t *p, v16 a)
{
	int i;

	for (i = 0; i < 16; i++) {
		float x = a.f[i] > -127.0f ? a.f[i] : -127.0f;

		p[i] = (int8_t)rintf(x < 127.0f ? x : 127.0f);
	}
}
/* The sum of each 16 of 256. */
VI void
v_sums16(int32_t *out, const int8_t *q)
{
	int i;

	for (i = 0; i < 256; i++)
		out[i / 16] = (i % 16 == 0 ? 0 : out[i / 16]) + q[i];
}
#endif

#if !defined(__AVX512F__) && !defined(__AVX2__)
/*
 * Those of 16 whose bit is set, side by side; up to 16 are written, whatever the
 * mask, so to + 16 must not be after what was read.
 */
VI void
v_squeeze(uint32_t *to, const uint32_t *from, unsigned mask)
{
	for (; mask != 0; mask &= mask - 1)
		*to++ = from[__builtin_ctz(mask)];
}
#endif

/* Four doubles, from and to floats. */
#if defined(__AVX512F__) || defined(__AVX2__)
typedef __m256d d4;

VI d4 d_load(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
VI d4 d_set1(double x) { return _mm256_set1_pd(x); }
VI d4 d_add(d4 a, d4 b) { return _mm256_add_pd(a, b); }
VI d4 d_sub(d4 a, d4 b) { return _mm256_sub_pd(a, b); }
VI d4 d_mul(d4 a, d4 b) { return _mm256_mul_pd(a, b); }
VI d4 d_min(d4 a, d4 b) { return _mm256_min_pd(a, b); }
VI d4 d_max(d4 a, d4 b) { return _mm256_max_pd(a, b); }
VI void d_store(double *p, d4 a) { _mm256_storeu_pd(p, a); }
VI void
d_store_f32(float *p, d4 a)
{
	_mm_storeu_ps(p, _mm256_cvtpd_ps(a));
}
#else
typedef struct { double d[4]; } d4;

#define EACH4(expr) ((d4){ { expr(0), expr(1), expr(2), expr(3) } })
#define D_LOAD(i) (double)p[i]
#define D_ADD(i) a.d[i] + b.d[i]
#define D_SUB(i) a.d[i] - b.d[i]
#define D_MUL(i) a.d[i] * b.d[i]
#define D_MIN(i) a.d[i] < b.d[i] ? a.d[i] : b.d[i]
#define D_MAX(i) a.d[i] > b.d[i] ? a.d[i] : b.d[i]

VI d4 d_load(const float *p) { return EACH4(D_LOAD); }
VI d4 d_set1(double x) { return (d4){ { x, x, x, x } }; }
VI d4 d_add(d4 a, d4 b) { return EACH4(D_ADD); }
VI d4 d_sub(d4 a, d4 b) { return EACH4(D_SUB); }
VI d4 d_mul(d4 a, d4 b) { return EACH4(D_MUL); }
VI d4 d_min(d4 a, d4 b) { return EACH4(D_MIN); }
VI d4 d_max(d4 a, d4 b) { return EACH4(D_MAX); }
VI void d_store(double *p, d4 a) { memcpy(p, a.d, sizeof a.d); }
VI void
d_store_f32(float *p, d4 a)
{
	int i;

	for (i = 0; i < 4; i++)
		p[i] = (float)a.d[i];
}
#endif

VI v16 v_zero(void) { return v_set1(0.0f); }

/* The first n (0 .. 16) lanes, the others zero; stores touch only those. */
VI v16
v_load_n(const float *p, size_t n)
{
	float t[16] = { 0 };

	if (n == 16)
		return v_load(p);
	memcpy(t, p, n * sizeof *p);
	return v_load(t);
}
VI void
v_store_n(float *p, v16 a, size_t n)
{
	float t[16];

	if (n == 16) {
		v_store(p, a);
		return;
	}
	v_store(t, a);
	memcpy(p, t, n * sizeof *p);
}

/* x / (1 + e^-x) */
VI v16
v_silu(v16 x)
{
	return v_div(x, v_add(v_set1(1.0f), v_exp(v_sub(v_zero(), x))));
}

#endif
