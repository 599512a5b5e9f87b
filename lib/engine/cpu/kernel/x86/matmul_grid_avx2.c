/* SPDX-License-Identifier: ISC */
/* matmul_grid_avx2.c - y = Wx, x in 8 bits, AVX2: weights of grids. */
#include "engine/cpu/kernel/x86/rows_grid.h"

#define ROW_SUMS sums_grid
#define ROW_FORMATS QWEN_GRID_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_grid_avx2_kernels[] = {
	ROW_KERNELS(QWEN_AVX2)
	{ 0 }
};
