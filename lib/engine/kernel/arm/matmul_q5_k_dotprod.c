/* SPDX-License-Identifier: ISC */
/* matmul_q5_k_dotprod.c - y = Wx, W in Q5_K, x in 8 bits, SDOT. */
#include "engine/kernel/arm/q5_k.h"
#include "engine/kernel/arm/rowdot.h"

const struct qwen_kernel qwen_matmul_q5_k_dotprod = {
	.op = QWEN_OP_MATMUL, .type = QT_Q5_K, .name = "dotprod",
	.rank = 30, .need = QWEN_CPU_DOTPROD, .run.matmul = matmul,
};
