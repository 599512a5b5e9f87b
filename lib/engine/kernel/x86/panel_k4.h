/* SPDX-License-Identifier: ISC */
/* panel_k4.h - Q4_K and Q5_K in panels: the fold over blocks of 32. */
#define SCALES 1
#define LOW(s) _mm512_and_si512(s, _mm512_set1_epi32(0xffff))
#define HIGH(s) _mm512_srli_epi32(s, 16)
#include "engine/kernel/x86/panel_pair.h"

PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    int many, __m512 (*acc)[2], struct ahead *ahead)
{
	__m512i sum[MAX_TILE][2];
	int j, t, h;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

		fetch_ahead(ahead);
		UNROLL
		for (t = 0; t < n; t++) {
			act[t] = x[t]->q + 32 * j;
			v[t][0] = v[t][1] = _mm512_setzero_si512();
		}
		QUADS(v, p->w[g][j], 0, 8, act, n);
		UNROLL
		for (t = 0; t < n; t++)
			add_scaled(sum[t], v[t], p, g, j, 0, x[t]->a[j], many);
	}
	UNROLL
	for (t = 0; t < n; t++) {
		__m512 scale = _mm512_set1_ps(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++) {
			__m512i min = _mm512_setzero_si512();

			UNROLL
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
