/* SPDX-License-Identifier: ISC */
/* matmul_v2_neon.c - products of numerics version 2, NEON. */
#define VEC_NEON
#include "engine/kernel/matmul_v2.inc"

const struct qwen_kernel qwen_matmul_v2_neon_kernels[] = {
	ANY_V2(QWEN_NEON)
	{ 0 }
};
