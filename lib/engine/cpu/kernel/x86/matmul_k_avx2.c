/* SPDX-License-Identifier: ISC */
/* matmul_k_avx2.c - y = Wx, x in 8 bits, AVX2: more k-quants. */
#include "engine/cpu/kernel/x86/rows4.h"

#define ROW_SUMS sums_any
#define ROW_FORMATS QWEN_K_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_k_avx2_kernels[] = {
	ROW_KERNELS(QWEN_AVX2)
	{ 0 }
};
