/* SPDX-License-Identifier: ISC */
/* matmul_v2_avx512vnni.c - products of numerics version 2, AVX-512. */
#include "engine/kernel/matmul_v2.inc"

const struct qwen_kernel qwen_matmul_v2_avx512vnni = {
	.op = QWEN_OP_MATMUL_V2, .type = QWEN_ANY_TYPE, .name = "avx512vnni",
	.rank = 30, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
