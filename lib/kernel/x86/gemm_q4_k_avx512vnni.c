/* SPDX-License-Identifier: ISC */
/* gemm_q4_k_avx512vnni.c - y = Wx for many tokens, W in Q4_K, AVX-512 VNNI. */
#define BLOCK_BYTES 144
#include "kernel/x86/panel_k4.h"

PI void
unpack16(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m512i m4 = _mm512_set1_epi8(15);
	const unsigned char *q[16];
	__m512i v[8];
	size_t j;
	int i;

	unpack_scales(p, to, g, half);
	for (j = 0; j < 4; j++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 16 + 32 * j;
		turn8(q, v);
#pragma GCC unroll 8
		for (i = 0; i < 8; i++) {
			store_quad(to, g, 2 * j, half, i,
			    _mm512_and_si512(v[i], m4));
			store_quad(to, g, 2 * j + 1, half, i,
			    _mm512_and_si512(_mm512_srli_epi16(v[i], 4), m4));
		}
	}
}

const struct qwen_kernel qwen_gemm_q4_k_avx512vnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q4_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .min_tok = 4,
	.run.matmul = gemm,
};
