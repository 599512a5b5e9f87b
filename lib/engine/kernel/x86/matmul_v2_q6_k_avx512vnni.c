/* SPDX-License-Identifier: ISC */
/* matmul_v2_q6_k_avx512vnni.c - version 2, W in Q6_K, AVX-512. */
#define BLOCK_BYTES 210
#include "engine/kernel/x86/panel_v2.h"
#include "engine/kernel/x86/dequant_q6_k.h"

const struct qwen_kernel qwen_matmul_v2_q6_k_avx512vnni = {
	.op = QWEN_OP_MATMUL_V2, .type = QT_Q6_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
