/* SPDX-License-Identifier: ISC */
/* vec_avx512vnni.c - all that is written in terms of vec.h, AVX-512. */
#include "engine/cpu/kernel/vec_ops.inc"

const struct qwen_kernel qwen_vec_avx512vnni_kernels[] = {
	VEC_KERNELS(QWEN_AVX512VNNI)
};
