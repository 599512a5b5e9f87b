/* SPDX-License-Identifier: ISC */
/* gemm_q8_0_avx512vnni.c - y = Wx for many tokens, W in Q8_0, AVX-512 VNNI. */
#define BLOCK_BYTES (8 * 34)
#define SCALES 2
#include "engine/kernel/x86/panel.h"
#include "engine/kernel/x86/unpack_q8_0.h"

/* f16 times 1 to 7 is exact in f32. */
PI void
tables(struct panel *p, size_t ng)
{
	size_t g, j, a;

	for (g = 0; g < ng; g++) {
		for (j = 0; j < 8; j++) {
			__m512 d0 = _mm512_load_ps(p->d[g][j]);
			__m512 d1 = _mm512_load_ps(p->d[g][j] + 16);

			for (a = 0; a < 7; a++) {
				__m512 f = _mm512_set1_ps((float)(a + 1));

				_mm512_store_ps(p->by_a[g][j][a][0],
				    _mm512_mul_ps(d0, f));
				_mm512_store_ps(p->by_a[g][j][a][1],
				    _mm512_mul_ps(d1, f));
			}
		}
	}
}

/* part[half] += v[half] * a * scale, where v * a is below 2^24 */
PI void
add_scaled(__m512 *part, const __m512i *v, const struct panel *p, size_t g,
    int j, int16_t a, int many)
{
	int h;

	UNROLL
	for (h = 0; h < 2; h++) {
		__m512 d = many ? _mm512_load_ps(p->by_a[g][j][a - 1][h]) :
		    _mm512_load_ps(p->d[g][j] + 16 * h);

		part[h] = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(many ? v[h] :
		    _mm512_mullo_epi32(v[h], _mm512_set1_epi32(a))), part[h]);
		HOLD(part[h]);
	}
}

/* Weights are 128 too large in the panel: sums start at what comes off. */
PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    int many, __m512 (*acc)[2], struct ahead *ahead)
{
	__m512 part[MAX_TILE][2];
	int j, t;

	for (t = 0; t < n; t++)
		part[t][0] = part[t][1] = _mm512_setzero_ps();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

		fetch_ahead(ahead);
		UNROLL
		for (t = 0; t < n; t++) {
			act[t] = x[t]->q + 32 * j;
			v[t][0] = v[t][1] = _mm512_set1_epi32(x[t]->off8[j]);
		}
		QUADS(v, p->w[g][j], 0, 8, act, n);
		UNROLL
		for (t = 0; t < n; t++)
			add_scaled(part[t], v[t], p, g, j, x[t]->a[j], many);
	}
	UNROLL
	for (t = 0; t < n; t++) {
		__m512 scale = _mm512_set1_ps(x[t]->d);

		acc[t][0] = _mm512_fmadd_ps(scale, part[t][0], acc[t][0]);
		acc[t][1] = _mm512_fmadd_ps(scale, part[t][1], acc[t][1]);
	}
}

const struct qwen_kernel qwen_gemm_q8_0_avx512vnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q8_0, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .min_tok = 4,
	.run.matmul = gemm,
};
