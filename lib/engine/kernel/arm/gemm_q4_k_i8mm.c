/* SPDX-License-Identifier: ISC */
/* gemm_q4_k_i8mm.c - y = Wx for many tokens, W in Q4_K, SMMLA. */
#include "engine/kernel/arm/q4_k.h"
#include "engine/kernel/arm/panel_k.h"

const struct qwen_kernel qwen_gemm_q4_k_i8mm = {
	.op = QWEN_OP_GEMM, .type = QT_Q4_K, .name = "i8mm",
	.rank = 40, .need = QWEN_CPU_I8MM, .min_tok = 4,
	.run.matmul = gemm,
};
