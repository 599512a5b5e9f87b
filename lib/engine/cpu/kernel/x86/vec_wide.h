/* SPDX-License-Identifier: ISC */
/*
 * vec_wide.h - the operations of vec.h on x86: one zmm, or two ymm registers.
 */
#ifndef QWEN_KERNEL_VEC_WIDE_H
#define QWEN_KERNEL_VEC_WIDE_H

#include "engine/cpu/kernel/x86/wide.h"

typedef wide_f part;
typedef wide_half loose_half __attribute__((aligned(1), may_alias));

/*
 * Registers are separate members: gcc leaves nested arrays of them in memory.
 */
#ifdef __AVX512F__
#define VEC_WIDE 1		/* 32 registers of 16 lanes */
typedef part v16;

#define MAP1(fn, x) return fn(x)
#define MAP2(fn, x, y) return fn(x, y)
#define MAP3(fn, x, y, z) return fn(x, y, z)
#define SAME(x) return x
#define LOAD(fn, p) return fn(p)
#define STORE(fn, p, x) fn(p, x)
#define FOLD(fn, x) (x)
#else
typedef struct { part a, b; } v16;

#define MAP1(fn, x) return (v16){ fn(x.a), fn(x.b) }
#define MAP2(fn, x, y) return (v16){ fn(x.a, y.a), fn(x.b, y.b) }
#define MAP3(fn, x, y, z)						\
	return (v16){ fn(x.a, y.a, z.a), fn(x.b, y.b, z.b) }
#define SAME(x) return (v16){ x, x }
#define LOAD(fn, p) return (v16){ fn(p), fn((p) + 8) }
#define STORE(fn, p, x) fn(p, x.a), fn((p) + 8, x.b)
#define FOLD(fn, x) fn(x.a, x.b)
#endif

VEC_INLINE part p_load(const float *p) { return MM(loadu_ps)(p); }
VEC_INLINE void p_store(float *p, part a) { MM(storeu_ps)(p, a); }
VEC_INLINE part p_set1(float x) { return MM(set1_ps)(x); }
VEC_INLINE part p_fma(part a, part b, part c) { return MM(fmadd_ps)(a, b, c); }
VEC_INLINE part p_max(part a, part b) { return MM(max_ps)(a, b); }
VEC_INLINE part p_min(part a, part b) { return MM(min_ps)(a, b); }
VEC_INLINE part
p_load_f16(const uint16_t *p)
{
	return MM(cvtph_ps)(*(const loose_half *)p);
}
VEC_INLINE part
p_load_bf16(const uint16_t *p)
{
	return (part)MM(slli_epi32)(MM(cvtepu16_epi32)(*(const loose_half *)p),
	    16);
}
VEC_INLINE void
p_store_f16(uint16_t *p, part a)
{
	*(loose_half *)p = MM(cvtps_ph)(a,
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE wide_i
clamp_i8(part a)
{
	return MM(cvtps_epi32)(p_min(p_max(a, p_set1(-127.0f)),
	    p_set1(127.0f)));
}
VEC_INLINE float
sum8(__m256 a)
{
	__m128 c = _mm_add_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	c = _mm_add_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(c) + _mm_cvtss_f32(_mm_shuffle_ps(c, c, 1));
}

#ifdef __AVX512F__
VEC_INLINE part
p_choose(part a, part b, part yes, part no)
{
	return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ),
	    yes);
}
VEC_INLINE part
p_round(part a)
{
	return _mm512_roundscale_ps(a,
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE void
p_store_upper(uint16_t *p, part a)
{
	*(loose_half *)p = _mm512_cvtepi32_epi16(_mm512_srli_epi32((wide_i)a,
	    16));
}
VEC_INLINE float
p_sum(part a)
{
	return sum8(_mm256_add_ps(_mm512_castps512_ps256(a),
	    _mm512_extractf32x8_ps(a, 1)));
}
VEC_INLINE float p_hmax(part a) { return _mm512_reduce_max_ps(a); }
VEC_INLINE unsigned
v_at_least(v16 a, v16 b)
{
	return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
VEC_INLINE void
v_squeeze(uint32_t *to, const uint32_t *from, unsigned mask)
{
	_mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)mask,
	    _mm512_loadu_si512(from)));
}
VEC_INLINE void
p_store_i8(int8_t *p, part a)
{
	_mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(clamp_i8(a)));
}
VEC_INLINE void
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
VEC_INLINE __m128i
max_lanes(__m512i a)
{
	__m256i b = _mm256_max_epu32(_mm512_castsi512_si256(a),
	    _mm512_extracti64x4_epi64(a, 1));

	return _mm_max_epu32(_mm256_castsi256_si128(b),
	    _mm256_extracti128_si256(b, 1));
}
#else
VEC_INLINE part
p_choose(part a, part b, part yes, part no)
{
	return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LE_OQ));
}
VEC_INLINE part
p_round(part a)
{
	return _mm256_round_ps(a,
	    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
VEC_INLINE void
p_store_upper(uint16_t *p, part a)
{
	__m256i u = _mm256_srli_epi32((wide_i)a, 16);

	*(loose_half *)p = _mm_packus_epi32(_mm256_castsi256_si128(u),
	    _mm256_extracti128_si256(u, 1));
}
VEC_INLINE float p_sum(part a) { return sum8(a); }
VEC_INLINE float
p_hmax(part a)
{
	__m128 c = _mm_max_ps(_mm256_castps256_ps128(a),
	    _mm256_extractf128_ps(a, 1));

	c = _mm_max_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(_mm_max_ss(c, _mm_shuffle_ps(c, c, 1)));
}
VEC_INLINE unsigned
v_at_least(v16 a, v16 b)
{
	return (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a.a, b.a,
	    _CMP_GE_OQ)) | (unsigned)_mm256_movemask_ps(_mm256_cmp_ps(a.b, b.b,
	    _CMP_GE_OQ)) << 8;
}
/* For each mask of four bits: the lanes whose bit is set, then zeros. */
static const int32_t front4[16][4] = {
	{ 0 }, { 0 }, { 1 }, { 0, 1 }, { 2 }, { 0, 2 }, { 1, 2 }, { 0, 1, 2 },
	{ 3 }, { 0, 3 }, { 1, 3 }, { 0, 1, 3 }, { 2, 3 }, { 0, 2, 3 },
	{ 1, 2, 3 }, { 0, 1, 2, 3 },
};
VEC_INLINE void
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
VEC_INLINE void
p_store_i8(int8_t *p, part a)
{
	__m256i i = clamp_i8(a);
	__m128i h = _mm_packs_epi32(_mm256_castsi256_si128(i),
	    _mm256_extracti128_si256(i, 1));

	_mm_storel_epi64((__m128i *)p, _mm_packs_epi16(h, h));
}
VEC_INLINE void
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
VEC_INLINE __m128i
max_lanes(__m256i a)
{
	return _mm_max_epu32(_mm256_castsi256_si128(a),
	    _mm256_extracti128_si256(a, 1));
}
#endif

/* Returns the maximum of each of four vectors, one per lane. */
VEC_INLINE __m128i
max4(const wide_i *m)
{
	wide_i a = MM(max_epu32)(MM(unpacklo_epi32)(m[0], m[1]),
	    MM(unpackhi_epi32)(m[0], m[1]));
	wide_i b = MM(max_epu32)(MM(unpacklo_epi32)(m[2], m[3]),
	    MM(unpackhi_epi32)(m[2], m[3]));

	return max_lanes(MM(max_epu32)(MM(unpacklo_epi64)(a, b),
	    MM(unpackhi_epi64)(a, b)));
}
VEC_INLINE void
v_absmax_bits(uint32_t *out, const float *x)
{
	wide_i m[8];
	int i, j;

	UNROLL
	for (j = 0; j < 8; j++) {
		m[j] = (wide_i)p_set1(0.0f);
		for (i = 0; i < 32; i += LANES)
			m[j] = MM(max_epu32)(m[j], MM(set1_epi32)(0x7fffffff) &
			    (wide_i)p_load(x + 32 * j + i));
	}
	_mm_storeu_si128((__m128i *)out, max4(m));
	_mm_storeu_si128((__m128i *)(out + 4), max4(m + 4));
}

/* ------------------------------------------------------ integers, in pairs */

#ifdef __AVX512F__
typedef __m512i i16x, i16p;

VEC_INLINE i16x i_zero(void) { return _mm512_setzero_si512(); }
VEC_INLINE i16p
i_pair(const int16_t *p)
{
	int32_t x;

	memcpy(&x, p, sizeof x);
	return _mm512_set1_epi32(x);
}
VEC_INLINE i16p
i_load8(const int8_t *p)
{
	return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
}
VEC_INLINE i16p
i_load4(const uint8_t *p, i16p *high)
{
	__m512i x = _mm512_cvtepu8_epi16(_mm256_loadu_si256(
	    (const __m256i *)p)), eight = _mm512_set1_epi16(8);

	*high = _mm512_sub_epi16(_mm512_srli_epi16(x, 4), eight);
	return _mm512_sub_epi16(_mm512_and_si512(x, _mm512_set1_epi16(15)),
	    eight);
}
VEC_INLINE i16x
i_dot(i16x acc, i16p a, i16p b)
{
	return _mm512_dpwssd_epi32(acc, a, b);
}
VEC_INLINE v16 v_from_i(i16x a) { return _mm512_cvtepi32_ps(a); }
VEC_INLINE void
v_store_i16(int16_t *p, v16 a)
{
	_mm256_storeu_si256((__m256i *)p,
	    _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(a)));
}
#else
typedef struct { __m256i a, b; } i16x;
typedef i16x i16p;

VEC_INLINE i16x
i_zero(void)
{
	return (i16x){ _mm256_setzero_si256(), _mm256_setzero_si256() };
}
VEC_INLINE i16p
i_pair(const int16_t *p)
{
	__m256i v;
	int32_t x;

	memcpy(&x, p, sizeof x);
	v = _mm256_set1_epi32(x);
	return (i16p){ v, v };
}
VEC_INLINE __m128i
load_128(const void *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}
VEC_INLINE i16p
i_load8(const int8_t *p)
{
	return (i16p){ _mm256_cvtepi8_epi16(load_128(p)),
	    _mm256_cvtepi8_epi16(load_128(p + 16)) };
}
VEC_INLINE i16p
i_load4(const uint8_t *p, i16p *high)
{
	__m256i a = _mm256_cvtepu8_epi16(load_128(p));
	__m256i b = _mm256_cvtepu8_epi16(load_128(p + 16));
	__m256i low = _mm256_set1_epi16(15), eight = _mm256_set1_epi16(8);

	high->a = _mm256_sub_epi16(_mm256_srli_epi16(a, 4), eight);
	high->b = _mm256_sub_epi16(_mm256_srli_epi16(b, 4), eight);
	return (i16p){ _mm256_sub_epi16(_mm256_and_si256(a, low), eight),
	    _mm256_sub_epi16(_mm256_and_si256(b, low), eight) };
}
VEC_INLINE i16x
i_dot(i16x acc, i16p a, i16p b)
{
	return (i16x){ _mm256_add_epi32(acc.a, _mm256_madd_epi16(a.a, b.a)),
	    _mm256_add_epi32(acc.b, _mm256_madd_epi16(a.b, b.b)) };
}
VEC_INLINE v16
v_from_i(i16x a)
{
	return (v16){ _mm256_cvtepi32_ps(a.a), _mm256_cvtepi32_ps(a.b) };
}
VEC_INLINE void
v_store_i16(int16_t *p, v16 a)
{
	__m256i h = _mm256_packs_epi32(_mm256_cvtps_epi32(a.a),
	    _mm256_cvtps_epi32(a.b));

	_mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(h, 0xd8));
}
#endif

#endif
