/* SPDX-License-Identifier: ISC */
/* matmul_q8_0_neon.c - y = Wx, W in Q8_0, x in 8 bits, NEON. */
#include "engine/kernel/arm/rowdot_32.h"

const struct qwen_kernel qwen_matmul_q8_0_neon = {
	.op = QWEN_OP_MATMUL, .type = QT_Q8_0, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.matmul = matmul,
};
