/* SPDX-License-Identifier: ISC */
/*
 * matmul_q4_k_avx512vnni.c - y = Wx, W in Q4_K, x in 8 bits, AVX-512 VNNI:
 * VPMADDUBSW (at most 3810, no saturation), then VPDPWSSD with scale times
 * sub-scale.
 */
#define BLOCK_BYTES 144
#define QS_AT 16
#include "engine/kernel/x86/rowdot_k4.h"

RI void
high(const unsigned char *w, __m512i *n)
{
	(void)w;
	(void)n;
}

const struct qwen_kernel qwen_matmul_q4_k_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_Q4_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
