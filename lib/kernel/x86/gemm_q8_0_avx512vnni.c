/* SPDX-License-Identifier: ISC */
/* gemm_q8_0_avx512vnni.c - y = Wx for many tokens, W in Q8_0, AVX-512 VNNI. */
#define BLOCK_BYTES (8 * 34)
#include "kernel/x86/panel.h"
#include "kernel/x86/unpack_q8_0.h"

/* Weights are 128 too large in the panel: sums start at what comes off. */
PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    __m512 (*acc)[2])
{
	__m512 part[MAX_TILE][2];
	int j, t;

	for (t = 0; t < n; t++)
		part[t][0] = part[t][1] = _mm512_setzero_ps();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];
		__m512 d0 = _mm512_load_ps(p->d[g][j]);
		__m512 d1 = _mm512_load_ps(p->d[g][j] + 16);

		UNROLL
		for (t = 0; t < n; t++) {
			act[t] = x[t]->q + 32 * j;
			v[t][0] = v[t][1] = _mm512_set1_epi32(x[t]->off8[j]);
		}
		QUADS(v, p->w[g][j], 0, 8, act, n);
		UNROLL
		for (t = 0; t < n; t++) {
			__m512i a = _mm512_set1_epi32(x[t]->a[j]);

			part[t][0] = _mm512_fmadd_ps(d0, _mm512_cvtepi32_ps(
			    _mm512_mullo_epi32(v[t][0], a)), part[t][0]);
			part[t][1] = _mm512_fmadd_ps(d1, _mm512_cvtepi32_ps(
			    _mm512_mullo_epi32(v[t][1], a)), part[t][1]);
		}
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
