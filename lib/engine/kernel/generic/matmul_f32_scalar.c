/* SPDX-License-Identifier: ISC */
/* matmul_f32_scalar.c - y = Wx, W in F32, x in f32, plain C. */
#define WEIGHT float
#define LOAD v_load
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f32_scalar = {
	.op = QWEN_OP_MATMUL, .type = QT_F32, .name = "scalar",
	.rank = 0, .need = 0, .run.matmul = matmul,
};
