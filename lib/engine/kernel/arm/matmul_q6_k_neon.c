/* SPDX-License-Identifier: ISC */
/* matmul_q6_k_neon.c - y = Wx, W in Q6_K, x in 8 bits, NEON. */
#include "engine/kernel/arm/q6_k.h"
#include "engine/kernel/arm/rowdot.h"

const struct qwen_kernel qwen_matmul_q6_k_neon = {
	.op = QWEN_OP_MATMUL, .type = QT_Q6_K, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.matmul = matmul,
};
