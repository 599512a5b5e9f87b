/* SPDX-License-Identifier: ISC */
/* gemm_q6_k_i8mm.c - y = Wx for many tokens, W in Q6_K, SMMLA. */
#include "engine/kernel/arm/q6_k.h"
#include "engine/kernel/arm/panel_k.h"

const struct qwen_kernel qwen_gemm_q6_k_i8mm = {
	.op = QWEN_OP_GEMM, .type = QT_Q6_K, .name = "i8mm",
	.rank = 40, .need = QWEN_CPU_I8MM, .min_tok = 4,
	.run.matmul = gemm,
};
