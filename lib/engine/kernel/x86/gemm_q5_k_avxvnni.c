/* SPDX-License-Identifier: ISC */
/* gemm_q5_k_avxvnni.c - y = Wx for many tokens, W in Q5_K, AVX-VNNI. */
#include "engine/kernel/x86/panel256_q5_k.h"

const struct qwen_kernel qwen_gemm_q5_k_avxvnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q5_K, .name = "avxvnni",
	.rank = 30, .need = QWEN_CPU_AVX2 | QWEN_CPU_AVXVNNI,
	.min_tok = 3, .run.matmul = gemm,
};
