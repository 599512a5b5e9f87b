/* SPDX-License-Identifier: ISC */
/* vec_scalar.c - all that is written in terms of vec.h, plain C. */
#include "engine/cpu/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_scalar_kernels[] = {
	VEC_KERNELS(QWEN_SCALAR)
};
