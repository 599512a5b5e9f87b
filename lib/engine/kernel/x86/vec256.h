/* SPDX-License-Identifier: ISC */
/* vec256.h - vec.h in AVX2: two ymm registers. */
#ifndef QWEN_KERNEL_VEC256_H
#define QWEN_KERNEL_VEC256_H

#include <immintrin.h>

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

#endif
