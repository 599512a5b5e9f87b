/* SPDX-License-Identifier: ISC */
/*
 * matmul_q4_k_avx2.c - y = Wx, W in Q4_K, x in 8 bits, AVX2: VPMADDUBSW (at most
 * 3810), four of these added up in 16 bits, then VPMADDWD with scale times
 * sub-scale.
 */
#define BLOCK_BYTES 144
#define QS_AT 16
#include "engine/kernel/x86/rowdot_k4_avx2.h"

RI void
high(const unsigned char *w, int c, int s, __m256i *n)
{
	(void)w;
	(void)c;
	(void)s;
	(void)n;
}

const struct qwen_kernel qwen_matmul_q4_k_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_Q4_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
