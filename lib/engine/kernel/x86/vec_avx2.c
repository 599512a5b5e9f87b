/* SPDX-License-Identifier: ISC */
/* vec_avx2.c - attention, the delta rule, products of floats and small functions, AVX2. */
#include "engine/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_avx2_kernels[] = {
	VEC_KERNELS(QWEN_AVX2)
};
