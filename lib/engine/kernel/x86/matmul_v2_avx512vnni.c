/* SPDX-License-Identifier: ISC */
/* matmul_v2_avx512vnni.c - products of numerics version 2, AVX-512. */
#include "engine/kernel/x86/matmul_v2.h"

const struct qwen_kernel qwen_matmul_v2_avx512vnni_kernels[] = {
	MATMUL_V2_KERNELS(QWEN_AVX512VNNI)
};
