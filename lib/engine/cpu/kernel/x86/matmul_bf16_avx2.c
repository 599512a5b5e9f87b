/* SPDX-License-Identifier: ISC */
/* matmul_bf16_avx2.c - products in bf16, AVX2. */
#include "engine/cpu/kernel/x86/matmul_bf16.h"

const struct qwen_kernel qwen_matmul_bf16_avx2_kernels[] = {
	MATMUL_BF16_KERNELS(QWEN_AVX2)
};
