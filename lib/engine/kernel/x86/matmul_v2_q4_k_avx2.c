/* SPDX-License-Identifier: ISC */
/* matmul_v2_q4_k_avx2.c - version 2, W in Q4_K, AVX2. */
#include "engine/kernel/x86/dequant256_k4.h"
#include "engine/kernel/x86/unpack256_q4_k.h"

const struct qwen_kernel qwen_matmul_v2_q4_k_avx2 = {
	.op = QWEN_OP_MATMUL_V2, .type = QT_Q4_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
