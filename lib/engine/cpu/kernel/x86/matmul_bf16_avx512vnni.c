/* SPDX-License-Identifier: ISC */
/* matmul_bf16_avx512vnni.c - products in bf16, AVX-512. */
#include "engine/cpu/kernel/x86/matmul_bf16.h"

const struct qwen_kernel qwen_matmul_bf16_avx512vnni_kernels[] = {
	MATMUL_BF16_KERNELS(QWEN_AVX512VNNI)
};
