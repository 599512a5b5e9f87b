/* SPDX-License-Identifier: ISC */
/* matmul_block_avx2.c - y = Wx, x in 8 bits, AVX2: small blocks. */
#include "engine/cpu/kernel/x86/rows4.h"

#define ROW_SUMS sums_any
#define ROW_FORMATS QWEN_BLOCK_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_block_avx2_kernels[] = {
	ROW_KERNELS(QWEN_AVX2)
	{ 0 }
};
