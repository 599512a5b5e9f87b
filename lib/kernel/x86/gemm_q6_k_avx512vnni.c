/* SPDX-License-Identifier: ISC */
/* gemm_q6_k_avx512vnni.c - y = Wx for many tokens, W in Q6_K, AVX-512 VNNI. */
#define BLOCK_BYTES 210
#include "kernel/x86/panel.h"
#include "kernel/x86/unpack_q6_k.h"

/* Weights are 0 .. 63 in the panel: 32 times scale times sum comes off. */
PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    __m512 (*acc)[2])
{
	__m512i sum[MAX_TILE][2];
	int j, t, h, k;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

		UNROLL
		for (k = 0; k < 2; k++) {
			__m512i s0 = _mm512_load_si512(p->scale[g][2 * j + k]);
			__m512i s1 = _mm512_load_si512(
			    p->scale[g][2 * j + k] + 16);

			UNROLL
			for (t = 0; t < n; t++) {
				act[t] = x[t]->q + 32 * j;
				v[t][0] = v[t][1] = _mm512_setzero_si512();
			}
			QUADS(v, p->w[g][j], 4 * k, 4 * k + 4, act, n);
			UNROLL
			for (t = 0; t < n; t++) {
				__m512i a = _mm512_set1_epi32(x[t]->a[j]);

				sum[t][0] = _mm512_add_epi32(sum[t][0],
				    _mm512_mullo_epi32(_mm512_mullo_epi32(
				    v[t][0], s0), a));
				sum[t][1] = _mm512_add_epi32(sum[t][1],
				    _mm512_mullo_epi32(_mm512_mullo_epi32(
				    v[t][1], s1), a));
			}
		}
	}
	UNROLL
	for (t = 0; t < n; t++) {
		__m512 scale = _mm512_set1_ps(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++) {
			__m512i off = _mm512_setzero_si512();

			UNROLL
			for (j = 0; j < 8; j++)
				off = _mm512_dpwssd_epi32(off,
				    _mm512_load_si512(p->min[g][j] + 16 * h),
				    broadcast(x[t]->asum16 + 2 * j));
			off = _mm512_sub_epi32(sum[t][h],
			    _mm512_slli_epi32(off, 5));
			acc[t][h] = _mm512_fmadd_ps(_mm512_mul_ps(
			    _mm512_load_ps(p->d[g][0] + 16 * h), scale),
			    _mm512_cvtepi32_ps(off), acc[t][h]);
		}
	}
}

const struct qwen_kernel qwen_gemm_q6_k_avx512vnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q6_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .min_tok = 4,
	.run.matmul = gemm,
};
