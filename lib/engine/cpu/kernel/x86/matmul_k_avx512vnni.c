/* SPDX-License-Identifier: ISC */
/* matmul_k_avx512vnni.c - y = Wx, x in 8 bits, AVX-512 VNNI: more k-quants. */
#include "engine/cpu/kernel/x86/rows4.h"

#define ROW_SUMS sums_any
#define ROW_FORMATS QWEN_K_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_k_avx512vnni_kernels[] = {
	ROW_KERNELS(QWEN_AVX512VNNI)
	{ 0 }
};
