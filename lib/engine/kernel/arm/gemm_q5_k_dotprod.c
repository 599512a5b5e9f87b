/* SPDX-License-Identifier: ISC */
/* gemm_q5_k_dotprod.c - y = Wx for many tokens, W in Q5_K, SDOT. */
#include "engine/kernel/arm/q5_k.h"
#include "engine/kernel/arm/panel_k.h"

const struct qwen_kernel qwen_gemm_q5_k_dotprod = {
	.op = QWEN_OP_GEMM, .type = QT_Q5_K, .name = "dotprod",
	.rank = 30, .need = QWEN_CPU_DOTPROD, .min_tok = 4,
	.run.matmul = gemm,
};
