/* SPDX-License-Identifier: ISC */
/* gemm_q8_0_i8mm.c - y = Wx for many tokens, W in Q8_0, SMMLA. */
#include "engine/kernel/arm/q8_0.h"
#include "engine/kernel/arm/panel_32.h"

const struct qwen_kernel qwen_gemm_q8_0_i8mm = {
	.op = QWEN_OP_GEMM, .type = QT_Q8_0, .name = "i8mm",
	.rank = 40, .need = QWEN_CPU_I8MM, .min_tok = 4,
	.run.matmul = gemm,
};
