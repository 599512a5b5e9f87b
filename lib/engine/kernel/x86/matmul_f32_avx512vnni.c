/* SPDX-License-Identifier: ISC */
/* matmul_f32_avx512vnni.c - y = Wx, W in F32, x in f32, AVX-512. */
#define WEIGHT float
#define LOAD v_load
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f32_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_F32, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
