/* SPDX-License-Identifier: ISC */
/* matmul_f32_avx2.c - y = Wx, W in F32, x in f32, AVX2. */
#define WEIGHT float
#define LOAD v_load
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f32_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_F32, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
