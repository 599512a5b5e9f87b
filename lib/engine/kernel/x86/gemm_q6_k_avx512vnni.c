/* SPDX-License-Identifier: ISC */
/* gemm_q6_k_avx512vnni.c - y = Wx for many tokens, W in Q6_K, AVX-512 VNNI. */
#define BLOCK_BYTES 210
#define SCALES 2
#define LOW(s) _mm512_srai_epi32(_mm512_slli_epi32(s, 16), 16)
#define HIGH(s) _mm512_srai_epi32(s, 16)
#include "engine/kernel/x86/panel_pair.h"
#include "engine/kernel/x86/unpack_q6_k.h"

/* Weights are 0 .. 63 in the panel: sums start at what comes off. */
PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    int many, __m512 (*acc)[2], struct ahead *ahead)
{
	__m512i sum[MAX_TILE][2];
	int j, t, h, k;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

		fetch_ahead(ahead);
		UNROLL
		for (k = 0; k < 2; k++) {
			UNROLL
			for (t = 0; t < n; t++) {
				act[t] = x[t]->q + 32 * j;
				v[t][0] = v[t][1] = _mm512_set1_epi32(
				    x[t]->off6[2 * j + k]);
			}
			QUADS(v, p->w[g][j], 4 * k, 4 * k + 4, act, n);
			UNROLL
			for (t = 0; t < n; t++)
				add_scaled(sum[t], v[t], p, g, j, k,
				    x[t]->a[j], many);
		}
	}
	UNROLL
	for (t = 0; t < n; t++) {
		__m512 scale = _mm512_set1_ps(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++)
			acc[t][h] = _mm512_fmadd_ps(_mm512_mul_ps(
			    _mm512_load_ps(p->d[g][0] + 16 * h), scale),
			    _mm512_cvtepi32_ps(sum[t][h]), acc[t][h]);
	}
}

const struct qwen_kernel qwen_gemm_q6_k_avx512vnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q6_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .min_tok = 4,
	.run.matmul = gemm,
};
