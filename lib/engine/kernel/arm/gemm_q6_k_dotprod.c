/* SPDX-License-Identifier: ISC */
/* gemm_q6_k_dotprod.c - y = Wx for many tokens, W in Q6_K, SDOT. */
#include "engine/kernel/arm/q6_k.h"
#include "engine/kernel/arm/panel_k.h"

const struct qwen_kernel qwen_gemm_q6_k_dotprod = {
	.op = QWEN_OP_GEMM, .type = QT_Q6_K, .name = "dotprod",
	.rank = 30, .need = QWEN_CPU_DOTPROD, .min_tok = 4,
	.run.matmul = gemm,
};
