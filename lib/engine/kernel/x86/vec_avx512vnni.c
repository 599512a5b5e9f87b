/* SPDX-License-Identifier: ISC */
/* vec_avx512vnni.c - attention, the delta rule, products of floats and small functions, AVX-512. */
#include "engine/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_avx512vnni_kernels[] = {
	VEC_KERNELS(QWEN_AVX512VNNI)
};
