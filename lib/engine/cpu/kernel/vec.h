/* SPDX-License-Identifier: ISC */
/*
 * vec.h - sixteen f32 lanes: one zmm, two ymm, four NEON registers, or an array
 * in plain C.
 *
 * The templates (*.inc) are written with these types and functions and compiled
 * for each instruction set.  The plain C form defines the result of each
 * operation.  Every operation rounds as IEEE 754 defines, so all forms agree
 * bit by bit.  NEON is always available on arm64, so files that want it define
 * VEC_NEON.
 */
#ifndef QWEN_KERNEL_VEC_H
#define QWEN_KERNEL_VEC_H

#include <string.h>

#include "base/half.h"
#include "engine/cpu/kernel/kernel.h"
#include "engine/quant/math.h"

#define VEC_INLINE static inline __attribute__((always_inline, unused))

/* For loops with a small constant number of steps over values in registers. */
#ifdef __clang__
#define UNROLL_ALL _Pragma("clang loop unroll(full)")
#else
#define UNROLL_ALL _Pragma("GCC unroll 16")
#endif

/*
 * A part is a register, or one number in plain C.  Each instruction set defines
 * its loads and stores, and the operations that C has no operators for:
 *	p_choose	a <= b ? yes : no
 *	p_round		to the nearest integer, ties to even
 *	p_store_upper	the upper 16 bits of each
 *	p_sum, p_hmax	over the lanes of a part, in the order of v_sum
 *	p_at_least	a bit per lane: a >= b
 */
#if defined(__AVX2__)
#include "engine/cpu/kernel/x86/vec_wide.h"
#elif defined(VEC_NEON)
#include "engine/cpu/kernel/arm/vec_neon.h"
#else
#define VEC_PLAIN
typedef float part;

VEC_INLINE part p_load(const float *p) { return *p; }
VEC_INLINE void p_store(float *p, part a) { *p = a; }
VEC_INLINE part p_set1(float x) { return x; }
VEC_INLINE part p_fma(part a, part b, part c) { return fmaf(a, b, c); }
VEC_INLINE part p_max(part a, part b) { return a > b ? a : b; }
VEC_INLINE part p_exp(part a) { return qwen_expf(a); }
VEC_INLINE part p_load_f16(const uint16_t *p) { return qwen_f16_f32(*p); }
VEC_INLINE void p_store_f16(uint16_t *p, part a) { *p = qwen_f32_f16(a); }
VEC_INLINE part p_load_bf16(const uint16_t *p) { return qwen_bf16_f32(*p); }
VEC_INLINE void
p_store_bf16(uint16_t *p, part a, part least)
{
	*p = fabsf(a) < least ? 0 : qwen_f32_bf16(a);
}
VEC_INLINE void
p_store_i8(int8_t *p, part a)
{
	a = a > -127.0f ? a : -127.0f;
	*p = (int8_t)rintf(a < 127.0f ? a : 127.0f);
}
VEC_INLINE float p_sum(part a) { return a; }
VEC_INLINE float p_hmax(part a) { return a; }
VEC_INLINE unsigned p_at_least(part a, part b) { return a >= b; }
VEC_INLINE void
v_absmax_bits(uint32_t *out, const float *x)
{
	uint32_t u;
	int i;

	for (i = 0; i < 256; i++) {
		u = qwen_f32_bits(x[i]) & 0x7fffffff;
		out[i / 32] = i % 32 == 0 || u > out[i / 32] ? u : out[i / 32];
	}
}
VEC_INLINE void
v_sums16(int32_t *out, const int8_t *q)
{
	int i;

	for (i = 0; i < 256; i++)
		out[i / 16] = (i % 16 == 0 ? 0 : out[i / 16]) + q[i];
}
#endif

#ifndef VEC_PLAIN
/* Operations of vectors that follow plain C step by step. */
typedef uint32_t part_u __attribute__((vector_size(sizeof(part))));
typedef int32_t part_i __attribute__((vector_size(sizeof(part))));

/* qwen_expf */
VEC_INLINE part
p_exp(part x)
{
	part lo = p_set1(EXP_LO), hi = p_set1(EXP_HI);
	part y = p_min(p_max(x, lo), hi);
	part n = p_round(y * p_set1(EXP_LOG2E)), r, p;

	r = p_fma(n, p_set1(-EXP_LN2_HI), y);
	r = p_fma(n, p_set1(-EXP_LN2_LO), r);
	p = p_fma(p_set1(EXP_C6), r, p_set1(EXP_C5));
	p = p_fma(p, r, p_set1(EXP_C4));
	p = p_fma(p, r, p_set1(EXP_C3));
	p = p_fma(p, r, p_set1(EXP_C2));
	p = p_fma(p, r * r, r) + p_set1(1.0f);
	p *= (part)((__builtin_convertvector(n, part_i) + 127) << 23);
	p = p_choose(lo, x, p, p_set1(0.0f));
	/* NaN compares false */
	return p_choose(x, hi, p, p_choose(hi, x, p_set1(INFINITY), x));
}
/* Rounds to nearest even; NaN stays NaN; values below least become 0. */
VEC_INLINE void
p_store_bf16(uint16_t *p, part a, part least)
{
	part_u u = (part_u)a, r = u + (u >> 16 & 1) + 0x7fff;
	part abs = (part)(u & 0x7fffffff);

	r = (part_u)p_choose(least, abs, (part)r, p_set1(0.0f));
	p_store_upper(p, p_choose(a, a, (part)r, (part)(u | 0x400000)));
}
#endif

enum { PART_LANES = sizeof(part) / sizeof(float) };

/* A v16 as an array of parts, and macros that apply a function to each part. */
#ifndef MAP1
enum { N_PARTS = 16 / PART_LANES };

typedef struct { part v[N_PARTS]; } v16;

#define EACH(expr) do {							\
	v16 r_;								\
									\
	for (int i = 0; i < N_PARTS; i++)				\
		r_.v[i] = (expr);					\
	return r_;							\
} while (0)
#define MAP1(fn, x) EACH(fn(x.v[i]))
#define MAP2(fn, x, y) EACH(fn(x.v[i], y.v[i]))
#define MAP3(fn, x, y, z) EACH(fn(x.v[i], y.v[i], z.v[i]))
#define LOAD(fn, p) EACH(fn((p) + PART_LANES * i))
#define SAME(x) EACH(x)
#define STORE(fn, p, x) do {						\
	for (int i = 0; i < N_PARTS; i++)				\
		fn((p) + PART_LANES * i, x.v[i]);			\
} while (0)
#define FOLD(fn, x) fold(fn, x)

VEC_INLINE part
fold(part (*fn)(part a, part b), v16 x)
{
	for (int i, n = N_PARTS / 2; n > 0; n /= 2) {
		for (i = 0; i < n; i++)
			x.v[i] = fn(x.v[i], x.v[i + n]);
	}
	return x.v[0];
}
/* Returns a bit per lane: a >= b. */
VEC_INLINE unsigned
v_at_least(v16 a, v16 b)
{
	unsigned m = 0;

	for (int i = 0; i < N_PARTS; i++)
		m |= p_at_least(a.v[i], b.v[i]) << PART_LANES * i;
	return m;
}
#endif

VEC_INLINE part p_add(part a, part b) { return a + b; }
VEC_INLINE part p_sub(part a, part b) { return a - b; }
VEC_INLINE part p_mul(part a, part b) { return a * b; }
VEC_INLINE part p_div(part a, part b) { return a / b; }

VEC_INLINE v16 v_load(const float *p) { LOAD(p_load, p); }
VEC_INLINE v16 v_load_f16(const uint16_t *p) { LOAD(p_load_f16, p); }
VEC_INLINE v16 v_load_bf16(const uint16_t *p) { LOAD(p_load_bf16, p); }
VEC_INLINE void v_store(float *p, v16 a) { STORE(p_store, p, a); }
VEC_INLINE void v_store_f16(uint16_t *p, v16 a) { STORE(p_store_f16, p, a); }
/* Rounds to nearest even, clamped to -127 .. 127. */
VEC_INLINE void v_store_i8(int8_t *p, v16 a) { STORE(p_store_i8, p, a); }
VEC_INLINE v16 v_set1(float x) { SAME(p_set1(x)); }
VEC_INLINE v16 v_add(v16 a, v16 b) { MAP2(p_add, a, b); }
VEC_INLINE v16 v_sub(v16 a, v16 b) { MAP2(p_sub, a, b); }
VEC_INLINE v16 v_mul(v16 a, v16 b) { MAP2(p_mul, a, b); }
VEC_INLINE v16 v_div(v16 a, v16 b) { MAP2(p_div, a, b); }
VEC_INLINE v16 v_max(v16 a, v16 b) { MAP2(p_max, a, b); }
VEC_INLINE v16 v_fma(v16 a, v16 b, v16 c) { MAP3(p_fma, a, b, c); }
VEC_INLINE v16 v_exp(v16 a) { MAP1(p_exp, a); }
/* Sums as a tree: lane i and i + 8, then i + 4, i + 2, i + 1. */
VEC_INLINE float v_sum(v16 a) { return p_sum(FOLD(p_add, a)); }
VEC_INLINE float v_hmax(v16 a) { return p_hmax(FOLD(p_max, a)); }

#ifndef __AVX2__
/*
 * Moves the numbers of 16 whose bit is set to the front.  Writes up to 16
 * numbers, whatever the mask, so to + 16 must not lie after the numbers already
 * read.
 */
VEC_INLINE void
v_squeeze(uint32_t *to, const uint32_t *from, unsigned mask)
{
	for (; mask != 0; mask &= mask - 1)
		*to++ = from[__builtin_ctz(mask)];
}
#endif

/* Eight lanes. */
#ifdef VEC_WIDE
typedef __m256 v8;

VEC_INLINE v8 h_load(const float *p) { return _mm256_loadu_ps(p); }
VEC_INLINE void h_store(float *p, v8 a) { _mm256_storeu_ps(p, a); }
VEC_INLINE v8 h_set1(float x) { return _mm256_set1_ps(x); }
VEC_INLINE v8 h_mul(v8 a, v8 b) { return a * b; }
VEC_INLINE v8 h_fma(v8 a, v8 b, v8 c) { return _mm256_fmadd_ps(a, b, c); }
#else
typedef struct { part v[8 / PART_LANES]; } v8;

#define EACH8(expr) do {						\
	v8 r_;								\
									\
	for (int i = 0; i < 8 / PART_LANES; i++)			\
		r_.v[i] = (expr);					\
	return r_;							\
} while (0)
VEC_INLINE v8 h_load(const float *p) { EACH8(p_load(p + PART_LANES * i)); }
VEC_INLINE v8 h_set1(float x) { EACH8(p_set1(x)); }
VEC_INLINE v8 h_mul(v8 a, v8 b) { EACH8(a.v[i] * b.v[i]); }
VEC_INLINE v8 h_fma(v8 a, v8 b, v8 c) { EACH8(p_fma(a.v[i], b.v[i], c.v[i])); }
VEC_INLINE void
h_store(float *p, v8 a)
{
	for (int i = 0; i < 8 / PART_LANES; i++)
		p_store(p + PART_LANES * i, a.v[i]);
}
#endif

/* Keeps a part or v16 in a register; gcc would load it again for each use. */
#if defined(VEC_WIDE)
#define PART_IN_REGISTER(v) __asm__("" : "+v"(v))
#define IN_REGISTER(v) PART_IN_REGISTER(v)
#elif defined(__AVX2__)
#define PART_IN_REGISTER(v) __asm__("" : "+x"(v))
#define IN_REGISTER(v) __asm__("" : "+x"((v).a), "+x"((v).b))
#else
#define PART_IN_REGISTER(v) ((void)(v))
#define IN_REGISTER(v) ((void)(v))
#endif

/* Four doubles, loaded from and stored to floats. */
#ifdef __AVX2__
typedef __m256d d4;

VEC_INLINE d4 d_load(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p));
    }
VEC_INLINE d4 d_set1(double x) { return _mm256_set1_pd(x); }
VEC_INLINE d4 d_add(d4 a, d4 b) { return _mm256_add_pd(a, b); }
VEC_INLINE d4 d_sub(d4 a, d4 b) { return _mm256_sub_pd(a, b); }
VEC_INLINE d4 d_mul(d4 a, d4 b) { return _mm256_mul_pd(a, b); }
VEC_INLINE d4 d_min(d4 a, d4 b) { return _mm256_min_pd(a, b); }
VEC_INLINE d4 d_max(d4 a, d4 b) { return _mm256_max_pd(a, b); }
VEC_INLINE void d_store(double *p, d4 a) { _mm256_storeu_pd(p, a); }
VEC_INLINE void
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

VEC_INLINE d4 d_load(const float *p) { return EACH4(D_LOAD); }
VEC_INLINE d4 d_set1(double x) { return (d4){ { x, x, x, x } }; }
VEC_INLINE d4 d_add(d4 a, d4 b) { return EACH4(D_ADD); }
VEC_INLINE d4 d_sub(d4 a, d4 b) { return EACH4(D_SUB); }
VEC_INLINE d4 d_mul(d4 a, d4 b) { return EACH4(D_MUL); }
VEC_INLINE d4 d_min(d4 a, d4 b) { return EACH4(D_MIN); }
VEC_INLINE d4 d_max(d4 a, d4 b) { return EACH4(D_MAX); }
VEC_INLINE void d_store(double *p, d4 a) { memcpy(p, a.d, sizeof a.d); }
VEC_INLINE void
d_store_f32(float *p, d4 a)
{
	int i;

	for (i = 0; i < 4; i++)
		p[i] = (float)a.d[i];
}
#endif

/* y[i] = v_sum of the lanes at s[i], for four at a time. */
VEC_INLINE void
v_sum4(float *y, const float (*s)[16])
{
	typedef float f4 __attribute__((vector_size(16)));
	f4 q[4], v[4][4], a, b;
	int i;

	memcpy(v, s, sizeof v);
	UNROLL_ALL
	for (i = 0; i < 4; i++)
		q[i] = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]);
	a = __builtin_shufflevector(q[0], q[1], 0, 1, 4, 5) +
	    __builtin_shufflevector(q[0], q[1], 2, 3, 6, 7);
	b = __builtin_shufflevector(q[2], q[3], 0, 1, 4, 5) +
	    __builtin_shufflevector(q[2], q[3], 2, 3, 6, 7);
	a = __builtin_shufflevector(a, b, 0, 2, 4, 6) +
	    __builtin_shufflevector(a, b, 1, 3, 5, 7);
	memcpy(y, &a, sizeof a);
}

VEC_INLINE v16 v_zero(void) { return v_set1(0.0f); }

/* Load the first n (0 .. 16) lanes, the others zero; store only the first n. */
VEC_INLINE v16
v_load_n(const float *p, size_t n)
{
	float t[16] = { 0 };

	if (n == 16)
		return v_load(p);
	memcpy(t, p, n * sizeof *p);
	return v_load(t);
}
VEC_INLINE void
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

/*
 * Sixteen int32 lanes, and sixteen pairs of int16.  Each set defines
 *	i_zero, i_pair	all lanes 0; all pairs equal to the pair at p
 *	i_load8		32 int8_t
 *	i_load4		32 bytes: lower four bits minus 8; *high: the upper
 *	i_dot		adds the sum of two products to each lane
 *	v_from_i	to the nearest float
 *	v_store_i16	rounds to nearest even, clamped to int16
 */
#ifdef VEC_PLAIN
typedef struct { int32_t v[16]; } i16x;
typedef struct { int16_t v[32]; } i16p;

VEC_INLINE i16x i_zero(void) { return (i16x){ { 0 } }; }
VEC_INLINE i16p
i_pair(const int16_t *p)
{
	i16p r;
	int i;

	for (i = 0; i < 32; i++)
		r.v[i] = p[i % 2];
	return r;
}
VEC_INLINE i16p
i_load8(const int8_t *p)
{
	i16p r;
	int i;

	for (i = 0; i < 32; i++)
		r.v[i] = p[i];
	return r;
}
VEC_INLINE i16p
i_load4(const uint8_t *p, i16p *high)
{
	i16p r;
	int i;

	for (i = 0; i < 32; i++) {
		r.v[i] = (int16_t)((p[i] & 15) - 8);
		high->v[i] = (int16_t)((p[i] >> 4) - 8);
	}
	return r;
}
VEC_INLINE i16x
i_dot(i16x acc, i16p a, i16p b)
{
	int i;

	for (i = 0; i < 16; i++)
		acc.v[i] += a.v[2 * i] * b.v[2 * i] +
		    a.v[2 * i + 1] * b.v[2 * i + 1];
	return acc;
}
VEC_INLINE v16 v_from_i(i16x a) { EACH((float)a.v[i]); }
VEC_INLINE void
v_store_i16(int16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 16; i++)
		p[i] = (int16_t)rintf(a.v[i] > 32767.0f ? 32767.0f :
		    a.v[i] < -32768.0f ? -32768.0f : a.v[i]);
}
#elif defined(VEC_NEON)
VEC_INLINE v16 v_from_i(i16x a) { EACH(vcvtq_f32_s32(a.v[i])); }
VEC_INLINE void
v_store_i16(int16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 4; i++)
		vst1_s16(p + 4 * i, vqmovn_s32(vcvtnq_s32_f32(a.v[i])));
}
#endif

/* x / (1 + e^-x) */
VEC_INLINE v16
v_silu(v16 x)
{
	return v_div(x, v_add(v_set1(1.0f), v_exp(v_sub(v_zero(), x))));
}

#endif
