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

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(VEC_NEON)
#include <arm_neon.h>
#endif

#define VI static inline __attribute__((always_inline, unused))

#if defined(__AVX512F__)
/* ---------------------------------------------------------------- AVX-512 */
#define VEC_WIDE 1		/* 32 registers of 16 lanes */
typedef __m512 v16;

VI v16 v_load(const float *p) { return _mm512_loadu_ps(p); }
VI void v_store(float *p, v16 a) { _mm512_storeu_ps(p, a); }
VI v16 v_set1(float x) { return _mm512_set1_ps(x); }
VI v16 v_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
VI v16 v_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
VI v16 v_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
VI v16 v_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
VI v16 v_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
VI v16 v_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
VI v16
v_load_f16(const uint16_t *p)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
VI void
v_store_f16(uint16_t *p, v16 a)
{
	_mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(a,
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VI v16
v_load_bf16(const uint16_t *p)
{
	return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(
	    _mm256_loadu_si256((const __m256i *)p)), 16));
}
VI void
v_store_bf16(uint16_t *p, v16 a)
{
	__m512i u = _mm512_castps_si512(a);
	__m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16),
	    _mm512_set1_epi32(1));
	__m512i r = _mm512_add_epi32(_mm512_add_epi32(u, odd),
	    _mm512_set1_epi32(0x7fff));

	r = _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), u,
	    _mm512_set1_epi32(0x400000));
	r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(_mm512_abs_ps(a),
	    _mm512_set1_ps(QWEN_BF16_LEAST), _CMP_LT_OQ), _mm512_setzero_si512());
	_mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(
	    _mm512_srli_epi32(r, 16)));
}
VI float
v_sum(v16 a)
{
	__m256 b = _mm256_add_ps(_mm512_castps512_ps256(a),
	    _mm512_extractf32x8_ps(a, 1));
	__m128 c = _mm_add_ps(_mm256_castps256_ps128(b),
	    _mm256_extractf128_ps(b, 1));

	c = _mm_add_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(c) +
	    _mm_cvtss_f32(_mm_shuffle_ps(c, c, 1));
}
VI float v_hmax(v16 a) { return _mm512_reduce_max_ps(a); }
VI unsigned
v_at_least(v16 a, v16 b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
VI void
v_squeeze(uint32_t *to, const uint32_t *from, unsigned mask)
{
	_mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)mask,
	    _mm512_loadu_si512(from)));
}
VI v16
v_exp(v16 x)
{
	__mmask16 low = _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_LO),
	    _CMP_LT_OQ);
	__mmask16 high = _mm512_cmp_ps_mask(x, _mm512_set1_ps(EXP_HI),
	    _CMP_GT_OQ);
	v16 y = _mm512_min_ps(_mm512_max_ps(x, _mm512_set1_ps(EXP_LO)),
	    _mm512_set1_ps(EXP_HI));
	v16 n = _mm512_roundscale_ps(_mm512_mul_ps(y,
	    _mm512_set1_ps(EXP_LOG2E)),
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	v16 r, p;

	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_HI), y);
	r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_LO), r);
	p = v_fma(_mm512_set1_ps(EXP_C6), r, _mm512_set1_ps(EXP_C5));
	p = v_fma(p, r, _mm512_set1_ps(EXP_C4));
	p = v_fma(p, r, _mm512_set1_ps(EXP_C3));
	p = v_fma(p, r, _mm512_set1_ps(EXP_C2));
	p = v_add(v_fma(p, v_mul(r, r), r), _mm512_set1_ps(1.0f));
	p = v_mul(p, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(
	    _mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23)));
	p = _mm512_mask_mov_ps(p, low, _mm512_setzero_ps());
	p = _mm512_mask_mov_ps(p, high, _mm512_set1_ps(INFINITY));
	return _mm512_mask_mov_ps(p, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q),
	    x);
}
/* Lane 4i + j of a vector: the largest of 128-bit lane i's words of m[j]. */
VI __m512i
max4(const __m512i *m)
{
	__m512i a = _mm512_max_epu32(_mm512_unpacklo_epi32(m[0], m[1]),
	    _mm512_unpackhi_epi32(m[0], m[1]));
	__m512i b = _mm512_max_epu32(_mm512_unpacklo_epi32(m[2], m[3]),
	    _mm512_unpackhi_epi32(m[2], m[3]));

	return _mm512_max_epu32(_mm512_unpacklo_epi64(a, b),
	    _mm512_unpackhi_epi64(a, b));
}
VI void
v_absmax_bits(uint32_t *out, const float *x)
{
	const __m512i abs = _mm512_set1_epi32(0x7fffffff);
	__m512i m[8], a, b;
	int j;

	for (j = 0; j < 8; j++)
		m[j] = _mm512_max_epu32(
		    _mm512_and_si512(_mm512_loadu_si512(x + 32 * j), abs),
		    _mm512_and_si512(_mm512_loadu_si512(x + 32 * j + 16),
		    abs));
	a = max4(m);
	b = max4(m + 4);
	a = _mm512_max_epu32(_mm512_shuffle_i32x4(a, b, 0x44),
	    _mm512_shuffle_i32x4(a, b, 0xee));
	a = _mm512_max_epu32(a, _mm512_shuffle_i32x4(a, a, 0xb1));
	_mm_storeu_si128((__m128i *)out, _mm512_castsi512_si128(a));
	_mm_storeu_si128((__m128i *)(out + 4),
	    _mm512_extracti32x4_epi32(a, 2));
}
VI void
v_store_i8(int8_t *p, v16 a)
{
	__m512i i = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(a,
	    _mm512_set1_ps(-127.0f)), _mm512_set1_ps(127.0f)));

	_mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(i));
}
VI void
v_sums16(int32_t *out, const int8_t *q)
{
	const __m512i ones = _mm512_set1_epi8(1);
	const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
	    10, 14, 3, 7, 11, 15);
	__m512i s[4], a, b;
	int i;

	for (i = 0; i < 4; i++)
		s[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones,
		    _mm512_loadu_si512(q + 64 * i));
	a = _mm512_add_epi32(_mm512_unpacklo_epi32(s[0], s[1]),
	    _mm512_unpackhi_epi32(s[0], s[1]));
	b = _mm512_add_epi32(_mm512_unpacklo_epi32(s[2], s[3]),
	    _mm512_unpackhi_epi32(s[2], s[3]));
	a = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b),
	    _mm512_unpackhi_epi64(a, b));
	_mm512_storeu_si512(out, _mm512_permutexvar_epi32(turn, a));
}

#elif defined(__AVX2__)
/* ------------------------------------------------------------------- AVX2 */
typedef struct { __m256 a, b; } v16;

#define PAIR(fn, x, y) ((v16){ fn((x).a, (y).a), fn((x).b, (y).b) })

VI v16
v_load(const float *p)
{
	return (v16){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) };
}
VI void
v_store(float *p, v16 x)
{
	_mm256_storeu_ps(p, x.a);
	_mm256_storeu_ps(p + 8, x.b);
}
VI v16
v_set1(float x)
{
	return (v16){ _mm256_set1_ps(x), _mm256_set1_ps(x) };
}
VI v16 v_add(v16 x, v16 y) { return PAIR(_mm256_add_ps, x, y); }
VI v16 v_sub(v16 x, v16 y) { return PAIR(_mm256_sub_ps, x, y); }
VI v16 v_mul(v16 x, v16 y) { return PAIR(_mm256_mul_ps, x, y); }
VI v16 v_div(v16 x, v16 y) { return PAIR(_mm256_div_ps, x, y); }
VI v16 v_max(v16 x, v16 y) { return PAIR(_mm256_max_ps, x, y); }
VI v16
v_fma(v16 x, v16 y, v16 z)
{
	return (v16){ _mm256_fmadd_ps(x.a, y.a, z.a),
	    _mm256_fmadd_ps(x.b, y.b, z.b) };
}
VI v16
v_load_f16(const uint16_t *p)
{
	return (v16){ _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
	    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8))) };
}
VI void
v_store_f16(uint16_t *p, v16 x)
{
	_mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x.a,
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
	_mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(x.b,
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VI __m256
load8_bf16(const uint16_t *p)
{
	return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(
	    _mm_loadu_si128((const __m128i *)p)), 16));
}
VI v16
v_load_bf16(const uint16_t *p)
{
	return (v16){ load8_bf16(p), load8_bf16(p + 8) };
}
VI __m256i
round8_bf16(__m256 a)
{
	const __m256i abs = _mm256_set1_epi32(0x7fffffff);
	__m256i u = _mm256_castps_si256(a);
	__m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16),
	    _mm256_set1_epi32(1));
	__m256i r = _mm256_add_epi32(_mm256_add_epi32(u, odd),
	    _mm256_set1_epi32(0x7fff));
	__m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
	__m256 small = _mm256_cmp_ps(_mm256_castsi256_ps(_mm256_and_si256(u,
	    abs)), _mm256_set1_ps(QWEN_BF16_LEAST), _CMP_LT_OQ);

	r = _mm256_blendv_epi8(r, _mm256_or_si256(u,
	    _mm256_set1_epi32(0x400000)), nan);
	r = _mm256_andnot_si256(_mm256_castps_si256(small), r);
	return _mm256_srli_epi32(r, 16);
}
VI void
v_store_bf16(uint16_t *p, v16 x)
{
	_mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(
	    _mm256_packus_epi32(round8_bf16(x.a), round8_bf16(x.b)), 0xd8));
}
VI float
v_sum(v16 x)
{
	__m256 b = _mm256_add_ps(x.a, x.b);
	__m128 c = _mm_add_ps(_mm256_castps256_ps128(b),
	    _mm256_extractf128_ps(b, 1));

	c = _mm_add_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(c) +
	    _mm_cvtss_f32(_mm_shuffle_ps(c, c, 1));
}
VI float
v_hmax(v16 x)
{
	__m256 b = _mm256_max_ps(x.a, x.b);
	__m128 c = _mm_max_ps(_mm256_castps256_ps128(b),
	    _mm256_extractf128_ps(b, 1));

	c = _mm_max_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}
VI unsigned
v_at_least(v16 x, v16 y)
{
	return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a,
	    _CMP_GE_OQ)) | (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b,
	    _CMP_GE_OQ)) << 8;
}
/* The lanes of four whose bits are set, first. */
static const int32_t front4[16][4] = {
	{ 0 }, { 0 }, { 1 }, { 0, 1 }, { 2 }, { 0, 2 }, { 1, 2 }, { 0, 1, 2 },
	{ 3 }, { 0, 3 }, { 1, 3 }, { 0, 1, 3 }, { 2, 3 }, { 0, 2, 3 },
	{ 1, 2, 3 }, { 0, 1, 2, 3 },
};
VI void
v_squeeze(uint32_t *to, const uint32_t *from, unsigned mask)
{
	int i;

	for (i = 0; i < 4; i++, mask >>= 4) {
		__m128 a = _mm_loadu_ps((const float *)(from + 4 * i));

		_mm_storeu_ps((float *)to, _mm_permutevar_ps(a,
		    _mm_loadu_si128((const __m128i *)front4[mask & 15])));
		to += __builtin_popcount(mask & 15);
	}
}
VI __m256
exp8(__m256 x)
{
	__m256 lo = _mm256_set1_ps(EXP_LO), hi = _mm256_set1_ps(EXP_HI);
	__m256 low = _mm256_cmp_ps(x, lo, _CMP_LT_OQ);
	__m256 high = _mm256_cmp_ps(x, hi, _CMP_GT_OQ);
	__m256 y = _mm256_min_ps(_mm256_max_ps(x, lo), hi);
	__m256 n = _mm256_round_ps(_mm256_mul_ps(y,
	    _mm256_set1_ps(EXP_LOG2E)),
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
	__m256 r, p;

	r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HI), y);
	r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LO), r);
	p = _mm256_fmadd_ps(_mm256_set1_ps(EXP_C6), r,
	    _mm256_set1_ps(EXP_C5));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C4));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C3));
	p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(EXP_C2));
	p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r),
	    _mm256_set1_ps(1.0f));
	p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(
	    _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)),
	    23)));
	p = _mm256_andnot_ps(low, p);
	p = _mm256_blendv_ps(p, _mm256_set1_ps(INFINITY), high);
	return _mm256_blendv_ps(p, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
VI v16 v_exp(v16 x) { return (v16){ exp8(x.a), exp8(x.b) }; }
VI void
v_absmax_bits(uint32_t *out, const float *x)
{
	__m256i abs = _mm256_set1_epi32(0x7fffffff), m;
	__m128i c;
	int i, j;

	for (j = 0; j < 8; j++) {
		m = _mm256_setzero_si256();
		for (i = 0; i < 4; i++)
			m = _mm256_max_epu32(m, _mm256_and_si256(abs,
			    _mm256_loadu_si256((const __m256i *)(x + 32 * j +
			    8 * i))));
		c = _mm_max_epu32(_mm256_castsi256_si128(m),
		    _mm256_extracti128_si256(m, 1));
		c = _mm_max_epu32(c, _mm_shuffle_epi32(c, 0x4e));
		c = _mm_max_epu32(c, _mm_shuffle_epi32(c, 0xb1));
		out[j] = (uint32_t)_mm_cvtsi128_si32(c);
	}
}
VI void
v_store_i8(int8_t *p, v16 x)
{
	__m256 lo = _mm256_set1_ps(-127.0f), hi = _mm256_set1_ps(127.0f);
	__m256i a = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(x.a, lo),
	    hi));
	__m256i b = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(x.b, lo),
	    hi));
	__m256i h = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);

	_mm_storeu_si128((__m128i *)p, _mm_packs_epi16(
	    _mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1)));
}
VI void
v_sums16(int32_t *out, const int8_t *q)
{
	const __m256i ones = _mm256_set1_epi8(1);
	__m256i s;
	__m128i c;
	int i;

	for (i = 0; i < 8; i++) {
		s = _mm256_madd_epi16(_mm256_maddubs_epi16(ones,
		    _mm256_loadu_si256((const __m256i *)(q + 32 * i))),
		    _mm256_set1_epi16(1));
		s = _mm256_hadd_epi32(s, s);
		s = _mm256_hadd_epi32(s, s);
		c = _mm256_extracti128_si256(s, 1);
		out[2 * i] = _mm_cvtsi128_si32(_mm256_castsi256_si128(s));
		out[2 * i + 1] = _mm_cvtsi128_si32(c);
	}
}

#elif defined(VEC_NEON)
/* ------------------------------------------------------------------- NEON */
typedef struct { float32x4_t v[4]; } v16;

#define FOUR(expr) do {							\
	v16 r_;								\
	int i;								\
									\
	for (i = 0; i < 4; i++)						\
		r_.v[i] = (expr);					\
	return r_;							\
} while (0)

/* a > b ? a : b; FMAX would make more of NaN and of -0. */
VI float32x4_t
max_f32(float32x4_t a, float32x4_t b)
{
	return vbslq_f32(vcgtq_f32(a, b), a, b);
}
VI float32x4_t
load4_f16(const uint16_t *p)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

VI v16 v_load(const float *p) { FOUR(vld1q_f32(p + 4 * i)); }
VI v16 v_set1(float x) { FOUR(vdupq_n_f32(x)); }
VI v16 v_add(v16 a, v16 b) { FOUR(vaddq_f32(a.v[i], b.v[i])); }
VI v16 v_sub(v16 a, v16 b) { FOUR(vsubq_f32(a.v[i], b.v[i])); }
VI v16 v_mul(v16 a, v16 b) { FOUR(vmulq_f32(a.v[i], b.v[i])); }
VI v16 v_div(v16 a, v16 b) { FOUR(vdivq_f32(a.v[i], b.v[i])); }
VI v16 v_max(v16 a, v16 b) { FOUR(max_f32(a.v[i], b.v[i])); }
VI v16
v_fma(v16 a, v16 b, v16 c)
{
	FOUR(vfmaq_f32(c.v[i], a.v[i], b.v[i]));
}
VI v16 v_load_f16(const uint16_t *p) { FOUR(load4_f16(p + 4 * i)); }
VI v16
v_load_bf16(const uint16_t *p)
{
	FOUR(vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)));
}
VI void
v_store(float *p, v16 a)
{
	int i;

	for (i = 0; i < 4; i++)
		vst1q_f32(p + 4 * i, a.v[i]);
}
VI void
v_store_f16(uint16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 4; i++)
		vst1_u16(p + 4 * i,
		    vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
}
VI uint16x4_t
round4_bf16(float32x4_t a)
{
	uint32x4_t u = vreinterpretq_u32_f32(a);
	uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
	uint32x4_t r = vaddq_u32(vaddq_u32(u, odd), vdupq_n_u32(0x7fff));

	r = vbslq_u32(vceqq_f32(a, a), r, vorrq_u32(u,
	    vdupq_n_u32(0x400000)));
	r = vbicq_u32(r, vcltq_f32(vabsq_f32(a), vdupq_n_f32(QWEN_BF16_LEAST)));
	return vshrn_n_u32(r, 16);
}
VI void
v_store_bf16(uint16_t *p, v16 a)
{
	int i;

	for (i = 0; i < 4; i++)
		vst1_u16(p + 4 * i, round4_bf16(a.v[i]));
}
VI float
v_sum(v16 a)
{
	float32x4_t s = vaddq_f32(vaddq_f32(a.v[0], a.v[2]),
	    vaddq_f32(a.v[1], a.v[3]));
	float32x2_t t = vadd_f32(vget_low_f32(s), vget_high_f32(s));

	return vget_lane_f32(t, 0) + vget_lane_f32(t, 1);
}
VI float
v_hmax(v16 a)
{
	float32x4_t s = max_f32(max_f32(a.v[0], a.v[2]),
	    max_f32(a.v[1], a.v[3]));

	s = max_f32(s, vextq_f32(s, s, 2));
	return vgetq_lane_f32(max_f32(s, vextq_f32(s, s, 1)), 0);
}
VI unsigned
v_at_least(v16 a, v16 b)
{
	const uint32x4_t bit = { 1, 2, 4, 8 };
	unsigned m = 0;
	int i;

	for (i = 0; i < 4; i++)
		m |= vaddvq_u32(vandq_u32(vcgeq_f32(a.v[i], b.v[i]), bit)) <<
		    4 * i;
	return m;
}
VI float32x4_t
exp4(float32x4_t x)
{
	float32x4_t lo = vdupq_n_f32(EXP_LO), hi = vdupq_n_f32(EXP_HI);
	float32x4_t y = vminq_f32(vmaxq_f32(x, lo), hi);
	float32x4_t n = vrndnq_f32(vmulq_f32(y, vdupq_n_f32(EXP_LOG2E)));
	float32x4_t r, p;

	r = vfmsq_f32(y, n, vdupq_n_f32(EXP_LN2_HI));
	r = vfmsq_f32(r, n, vdupq_n_f32(EXP_LN2_LO));
	p = vfmaq_f32(vdupq_n_f32(EXP_C5), vdupq_n_f32(EXP_C6), r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C4), p, r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C3), p, r);
	p = vfmaq_f32(vdupq_n_f32(EXP_C2), p, r);
	p = vaddq_f32(vfmaq_f32(r, p, vmulq_f32(r, r)), vdupq_n_f32(1.0f));
	p = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(
	    vcvtq_s32_f32(n), vdupq_n_s32(127)), 23)));
	p = vbslq_f32(vcltq_f32(x, lo), vdupq_n_f32(0.0f), p);
	p = vbslq_f32(vcgtq_f32(x, hi), vdupq_n_f32(INFINITY), p);
	return vbslq_f32(vceqq_f32(x, x), p, x);
}
VI v16 v_exp(v16 x) { FOUR(exp4(x.v[i])); }
VI void
v_absmax_bits(uint32_t *out, const float *x)
{
	uint32x4_t m;
	int i, j;

	for (j = 0; j < 8; j++, x += 32) {
		m = vdupq_n_u32(0);
		for (i = 0; i < 8; i++)
			m = vmaxq_u32(m, vreinterpretq_u32_f32(vabsq_f32(
			    vld1q_f32(x + 4 * i))));
		out[j] = vmaxvq_u32(m);
	}
}
/* FMAXNM takes the number where the other is NaN, as plain C does. */
VI int16x4_t
round4(float32x4_t a)
{
	return vmovn_s32(vcvtnq_s32_f32(vminq_f32(vmaxnmq_f32(a,
	    vdupq_n_f32(-127.0f)), vdupq_n_f32(127.0f))));
}
VI void
v_store_i8(int8_t *p, v16 a)
{
	vst1q_s8(p, vcombine_s8(
	    vmovn_s16(vcombine_s16(round4(a.v[0]), round4(a.v[1]))),
	    vmovn_s16(vcombine_s16(round4(a.v[2]), round4(a.v[3])))));
}
VI void
v_sums16(int32_t *out, const int8_t *q)
{
	int i;

	for (i = 0; i < 16; i++)
		out[i] = vaddlvq_s8(vld1q_s8(q + 16 * i));
}

#else
/* ---------------------------------------------------------------- plain C */
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
 * mask, so to + 16 must not be behind what was read.
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
