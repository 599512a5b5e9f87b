/* SPDX-License-Identifier: ISC */
/*
 * panel_amx_k4.h - Q4_K and Q5_K in AMX panels.  A file that includes this has
 * defined OFFSET, what weights in the panel lack, and defines add_scaled().
 */
#define SCALES 1
#include "engine/kernel/x86/panel_amx_fold.h"

/* sum + s * m, where 0 <= m < 512 */
PI __m512i add_scaled(__m512i sum, __m512i s, __m512i m);

PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m512i v)
{
	_mm512_store_si512(p->w[g][0][8 * j + (size_t)quad][half],
	    OFFSET == 0 ? v : _mm512_sub_epi8(v, _mm512_set1_epi8(OFFSET)));
}

PI __m256i
pack_scales(__m256i a)
{
	return a;
}

/* Eight dwords of a panel, and four of pairs, times a token's 16-bit sums. */
PI __m512i
times_sums(const __m512i *pair, const struct qwen_q8 *x)
{
	__m512i v = _mm512_setzero_si512();
	int j;

#pragma GCC unroll 4
	for (j = 0; j < 4; j++)
		v = _mm512_dpwssd_epi32(v, pair[j], broadcast(x->asum +
		    2 * j));
	return v;
}

PI void
fold(const struct panel *p, size_t g, int half,
    int32_t (*s)[TILE_TOKENS][16], const struct qwen_q8 *const *x,
    const int32_t (*a)[8], size_t n, __m512 (*acc)[2])
{
	__m512i scale[8], pair[4], min[4];
	__m512 d = _mm512_load_ps(p->d[g][0] + 16 * half);
	__m512 dmin = _mm512_load_ps(p->dmin[g] + 16 * half);
	size_t t;
	int j;

#pragma GCC unroll 8
	for (j = 0; j < 8; j++)
		scale[j] = _mm512_load_si512(p->scale[g][j] + 16 * half);
#pragma GCC unroll 4
	for (j = 0; j < 4; j++) {
		min[j] = _mm512_load_si512(p->min[g][j] + 16 * half);
		pair[j] = _mm512_or_si512(scale[2 * j],
		    _mm512_slli_epi32(scale[2 * j + 1], 16));
	}
	for (t = 0; t < n; t++) {
		__m512 by = _mm512_set1_ps(x[t]->d);
		__m512i sum = OFFSET == 0 ? _mm512_setzero_si512() :
		    _mm512_mullo_epi32(times_sums(pair, x[t]),
		    _mm512_set1_epi32(OFFSET));

#pragma GCC unroll 8
		for (j = 0; j < 8; j++)
			sum = add_scaled(sum, _mm512_load_si512(s[j][t]),
			    _mm512_mullo_epi16(scale[j], broadcast(&a[t][j])));
		acc[t][half] = _mm512_fmadd_ps(_mm512_mul_ps(d, by),
		    _mm512_cvtepi32_ps(sum), acc[t][half]);
		acc[t][half] = _mm512_fnmadd_ps(_mm512_mul_ps(dmin, by),
		    _mm512_cvtepi32_ps(times_sums(min, x[t])), acc[t][half]);
	}
}
