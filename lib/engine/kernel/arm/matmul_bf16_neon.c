/* SPDX-License-Identifier: ISC */
/* matmul_bf16_neon.c - y = Wx, W in BF16, x in f32, NEON. */
#define VEC_NEON
#define WEIGHT uint16_t
#define LOAD v_load_bf16
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_bf16_neon = {
	.op = QWEN_OP_MATMUL, .type = QT_BF16, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.matmul = matmul,
};
