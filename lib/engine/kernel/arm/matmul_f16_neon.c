/* SPDX-License-Identifier: ISC */
/* matmul_f16_neon.c - y = Wx, W in F16, x in f32, NEON. */
#define VEC_NEON
#define WEIGHT uint16_t
#define LOAD v_load_f16
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f16_neon = {
	.op = QWEN_OP_MATMUL, .type = QT_F16, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.matmul = matmul,
};
