/* SPDX-License-Identifier: ISC */
/* matmul_f32_neon.c - y = Wx, W in F32, x in f32, NEON. */
#define VEC_NEON
#define WEIGHT float
#define LOAD v_load
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f32_neon = {
	.op = QWEN_OP_MATMUL, .type = QT_F32, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.matmul = matmul,
};
