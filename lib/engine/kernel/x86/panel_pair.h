/* SPDX-License-Identifier: ISC */
/*
 * panel_pair.h - integer scales in panels of 32 rows, as pairs of int16: a
 * dword has those of row i and row 16 + i, so one multiplication with a
 * sub-scale serves both, and a table is small enough for the first cache.
 *
 * A file that includes this has defined, besides what panel.h asks for,
 *	LOW, HIGH	the two of each pair, widened
 * and defines fold() alone.
 */
#include "engine/kernel/x86/panel.h"

/* Scale k of 32 columns of 16 rows, in dwords; half 0 comes first. */
PI void
store_scale(struct panel *p, size_t g, size_t j, size_t k, int half, __m512i v)
{
	uint8_t *to = p->scale[g][j][k];

	if (half == 1)
		v = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_load_si512(to),
		    _mm512_slli_epi32(v, 16));
	_mm512_store_si512(to, v);
}

PI void
tables(struct panel *p, size_t ng)
{
	size_t g, j, k, a;

	for (g = 0; g < ng; g++) {
		for (j = 0; j < 8; j++) {
			for (k = 0; k < SCALES; k++) {
				__m512i s = _mm512_load_si512(
				    p->scale[g][j][k]), v = s;

				for (a = 0; a < 7; a++) {
					_mm512_store_si512(
					    p->by_a[g][j][a][k], v);
					v = _mm512_add_epi16(v, s);
				}
			}
		}
	}
}

/* sum[half] += v[half] * scale * a */
PI void
add_scaled(__m512i *sum, const __m512i *v, const struct panel *p, size_t g,
    int j, int k, int16_t a, int many)
{
	__m512i s = many ? _mm512_load_si512(p->by_a[g][j][a - 1][k]) :
	    _mm512_mullo_epi16(_mm512_load_si512(p->scale[g][j][k]),
	    _mm512_set1_epi16(a));

	sum[0] = _mm512_add_epi32(sum[0], _mm512_mullo_epi32(v[0], LOW(s)));
	HOLD(sum[0]);
	sum[1] = _mm512_add_epi32(sum[1], _mm512_mullo_epi32(v[1], HIGH(s)));
	HOLD(sum[1]);
}
