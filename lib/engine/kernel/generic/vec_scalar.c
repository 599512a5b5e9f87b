/* SPDX-License-Identifier: ISC */
/* vec_scalar.c - attention, the delta rule, products of floats and small functions, plain C. */
#include "engine/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_scalar_kernels[] = {
	VEC_KERNELS(QWEN_SCALAR)
};
