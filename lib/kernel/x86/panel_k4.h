/* SPDX-License-Identifier: ISC */
/*
 * panel_k4.h - what the panels of Q4_K and Q5_K share: eight 6-bit scales and
 * minimums a group, and the fold over blocks of 32.
 */
#include "kernel/x86/panel.h"

/* d, dmin, scales and minimums: the first 16 bytes of 16 rows' blocks. */
PI void
unpack_scales(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m512i m6 = _mm512_set1_epi32(0x3f3f3f3f);
	const __m512i m4 = _mm512_set1_epi32(0x0f0f0f0f);
	const __m512i m2 = _mm512_set1_epi32(0x30303030);
	const __m512i byte = _mm512_set1_epi32(255);
	__m512i h[4], s[2], n[2];
	int i, j;

	turn4(p, h);
	_mm512_store_ps(to->d[g][0] + 16 * half, low_f16(h[0]));
	_mm512_store_ps(to->dmin[g] + 16 * half,
	    low_f16(_mm512_srli_epi32(h[0], 16)));
	s[0] = _mm512_and_si512(h[1], m6);
	n[0] = _mm512_and_si512(h[2], m6);
	s[1] = _mm512_or_si512(_mm512_and_si512(h[3], m4),
	    _mm512_and_si512(_mm512_srli_epi32(h[1], 2), m2));
	n[1] = _mm512_or_si512(
	    _mm512_and_si512(_mm512_srli_epi32(h[3], 4), m4),
	    _mm512_and_si512(_mm512_srli_epi32(h[2], 2), m2));
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++)
			_mm512_store_si512(to->scale[g][4 * i + j] + 16 * half,
			    _mm512_and_si512(_mm512_srli_epi32(s[i],
			    (unsigned)(8 * j)), byte));
		/* bytes 0 and 1, then 2 and 3, as a pair of int16 */
		for (j = 0; j < 2; j++) {
			__m512i v = _mm512_srli_epi32(n[i],
			    (unsigned)(16 * j));

			_mm512_store_si512(to->min[g][2 * i + j] + 16 * half,
			    _mm512_or_si512(_mm512_and_si512(v, byte),
			    _mm512_and_si512(_mm512_slli_epi32(v, 8),
			    _mm512_set1_epi32(0xff0000))));
		}
	}
}

PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    __m512 (*acc)[2])
{
	__m512i sum[MAX_TILE][2];
	int j, t, h;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];
		__m512i s0 = _mm512_load_si512(p->scale[g][j]);
		__m512i s1 = _mm512_load_si512(p->scale[g][j] + 16);

#pragma GCC unroll 6
		for (t = 0; t < n; t++) {
			act[t] = x[t]->q + 32 * j;
			v[t][0] = v[t][1] = _mm512_setzero_si512();
		}
		QUADS(v, p->w[g][j], 0, 8, act, n);
#pragma GCC unroll 6
		for (t = 0; t < n; t++) {
			__m512i a = _mm512_set1_epi32(x[t]->a[j]);

			sum[t][0] = _mm512_add_epi32(sum[t][0],
			    _mm512_mullo_epi32(_mm512_mullo_epi32(v[t][0],
			    s0), a));
			sum[t][1] = _mm512_add_epi32(sum[t][1],
			    _mm512_mullo_epi32(_mm512_mullo_epi32(v[t][1],
			    s1), a));
		}
	}
#pragma GCC unroll 6
	for (t = 0; t < n; t++) {
		__m512 scale = _mm512_set1_ps(x[t]->d);

#pragma GCC unroll 2
		for (h = 0; h < 2; h++) {
			__m512i min = _mm512_setzero_si512();

#pragma GCC unroll 4
			for (j = 0; j < 4; j++)
				min = _mm512_dpwssd_epi32(min,
				    _mm512_load_si512(p->min[g][j] + 16 * h),
				    broadcast(x[t]->asum + 2 * j));
			acc[t][h] = _mm512_fmadd_ps(_mm512_mul_ps(
			    _mm512_load_ps(p->d[g][0] + 16 * h), scale),
			    _mm512_cvtepi32_ps(sum[t][h]), acc[t][h]);
			acc[t][h] = _mm512_fnmadd_ps(_mm512_mul_ps(
			    _mm512_load_ps(p->dmin[g] + 16 * h), scale),
			    _mm512_cvtepi32_ps(min), acc[t][h]);
		}
	}
}
