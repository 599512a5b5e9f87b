/* SPDX-License-Identifier: ISC */
/* vec512.h - vec.h in AVX-512: a zmm register. */
#ifndef QWEN_KERNEL_VEC512_H
#define QWEN_KERNEL_VEC512_H

#include <immintrin.h>

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

#endif
