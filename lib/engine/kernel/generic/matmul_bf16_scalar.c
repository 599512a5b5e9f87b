/* SPDX-License-Identifier: ISC */
/* matmul_bf16_scalar.c - y = Wx, W in BF16, x in f32, plain C. */
#define WEIGHT uint16_t
#define LOAD v_load_bf16
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_bf16_scalar = {
	.op = QWEN_OP_MATMUL, .type = QT_BF16, .name = "scalar",
	.rank = 0, .need = 0, .run.matmul = matmul,
};
