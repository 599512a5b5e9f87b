/* SPDX-License-Identifier: ISC */
/* matmul_q6_k_dotprod.c - y = Wx, W in Q6_K, x in 8 bits, SDOT. */
#include "engine/kernel/arm/q6_k.h"
#include "engine/kernel/arm/rowdot.h"

const struct qwen_kernel qwen_matmul_q6_k_dotprod = {
	.op = QWEN_OP_MATMUL, .type = QT_Q6_K, .name = "dotprod",
	.rank = 30, .need = QWEN_CPU_DOTPROD, .run.matmul = matmul,
};
