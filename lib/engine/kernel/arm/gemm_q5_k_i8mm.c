/* SPDX-License-Identifier: ISC */
/* gemm_q5_k_i8mm.c - y = Wx for many tokens, W in Q5_K, SMMLA. */
#include "engine/kernel/arm/q5_k.h"
#include "engine/kernel/arm/panel_k.h"

const struct qwen_kernel qwen_gemm_q5_k_i8mm = {
	.op = QWEN_OP_GEMM, .type = QT_Q5_K, .name = "i8mm",
	.rank = 40, .need = QWEN_CPU_I8MM, .min_tok = 4,
	.run.matmul = gemm,
};
