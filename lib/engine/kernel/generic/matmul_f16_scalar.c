/* SPDX-License-Identifier: ISC */
/* matmul_f16_scalar.c - y = Wx, W in F16, x in f32, plain C. */
#define WEIGHT uint16_t
#define LOAD v_load_f16
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f16_scalar = {
	.op = QWEN_OP_MATMUL, .type = QT_F16, .name = "scalar",
	.rank = 0, .need = 0, .run.matmul = matmul,
};
