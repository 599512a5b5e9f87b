/* SPDX-License-Identifier: ISC */
/* matmul_q8_0_dotprod.c - y = Wx, W in Q8_0, x in 8 bits, SDOT. */
#include "engine/kernel/arm/rowdot_32.h"

const struct qwen_kernel qwen_matmul_q8_0_dotprod = {
	.op = QWEN_OP_MATMUL, .type = QT_Q8_0, .name = "dotprod",
	.rank = 30, .need = QWEN_CPU_DOTPROD, .run.matmul = matmul,
};
