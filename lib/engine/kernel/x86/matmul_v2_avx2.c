/* SPDX-License-Identifier: ISC */
/* matmul_v2_avx2.c - products of numerics version 2, AVX2. */
#include "engine/kernel/matmul_v2.inc"

const struct qwen_kernel qwen_matmul_v2_avx2 = {
	.op = QWEN_OP_MATMUL_V2, .type = QWEN_ANY_TYPE, .name = "avx2",
	.rank = 10, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
