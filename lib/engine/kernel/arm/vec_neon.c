/* SPDX-License-Identifier: ISC */
/* vec_neon.c - attention, the delta rule, products of floats and small functions, NEON. */
#define VEC_NEON
#include "engine/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_neon_kernels[] = {
	VEC_KERNELS(QWEN_NEON)
};
