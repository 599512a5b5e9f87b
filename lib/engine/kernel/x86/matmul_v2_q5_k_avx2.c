/* SPDX-License-Identifier: ISC */
/* matmul_v2_q5_k_avx2.c - version 2, W in Q5_K, AVX2. */
#include "engine/kernel/x86/dequant256_k4.h"
#include "engine/kernel/x86/unpack256_q5_k.h"

const struct qwen_kernel qwen_matmul_v2_q5_k_avx2 = {
	.op = QWEN_OP_MATMUL_V2, .type = QT_Q5_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
