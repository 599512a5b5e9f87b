/* SPDX-License-Identifier: ISC */
/* vec_neon.c - all that is written in terms of vec.h, NEON. */
#define VEC_NEON
#include "engine/cpu/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_neon_kernels[] = {
	VEC_KERNELS(QWEN_NEON)
};
