/* SPDX-License-Identifier: ISC */
/* vec_avx2.c - all that is written in terms of vec.h, AVX2. */
#include "engine/cpu/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_avx2_kernels[] = {
	VEC_KERNELS(QWEN_AVX2)
};
