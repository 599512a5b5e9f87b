/* SPDX-License-Identifier: ISC */
/* matmul_v2_neon.c - products of numerics version 2, NEON. */
#define VEC_NEON
#include "engine/kernel/matmul_v2.inc"

const struct qwen_kernel qwen_matmul_v2_neon_kernels[] = {
	{ .op = QWEN_OP_MATMUL_V2, .type = QWEN_ANY_TYPE, QWEN_NEON,
	    .run.matmul = matmul_v2_any },
	{ 0 }
};
