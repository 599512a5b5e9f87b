/* SPDX-License-Identifier: ISC */
/* matmul_v2_avx2.c - products of numerics version 2, AVX2. */
#include "engine/kernel/x86/matmul_v2.h"

const struct qwen_kernel qwen_matmul_v2_avx2_kernels[] = {
	MATMUL_V2_KERNELS(QWEN_AVX2)
};
