/* SPDX-License-Identifier: ISC */
/* gemm_q8_0_dotprod.c - y = Wx for many tokens, W in Q8_0, SDOT. */
#include "engine/kernel/arm/q8_0.h"
#include "engine/kernel/arm/panel_32.h"

const struct qwen_kernel qwen_gemm_q8_0_dotprod = {
	.op = QWEN_OP_GEMM, .type = QT_Q8_0, .name = "dotprod",
	.rank = 30, .need = QWEN_CPU_DOTPROD, .min_tok = 4,
	.run.matmul = gemm,
};
