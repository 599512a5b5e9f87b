/* SPDX-License-Identifier: ISC */
/* matmul_v2_q4_k_avx512vnni.c - version 2, W in Q4_K, AVX-512. */
#define BLOCK_BYTES 144
#include "engine/kernel/x86/panel_v2.h"
#include "engine/kernel/x86/dequant_q4_k.h"

const struct qwen_kernel qwen_matmul_v2_q4_k_avx512vnni = {
	.op = QWEN_OP_MATMUL_V2, .type = QT_Q4_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
