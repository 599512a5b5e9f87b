/* SPDX-License-Identifier: ISC */
/* matmul_grid_avx512vnni.c - y = Wx, x in 8 bits, AVX-512 VNNI: weights of grids. */
#include "engine/cpu/kernel/x86/rows_grid.h"

#define ROW_SUMS sums_grid
#define ROW_FORMATS QWEN_GRID_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_grid_avx512vnni_kernels[] = {
	ROW_KERNELS(QWEN_AVX512VNNI)
	{ 0 }
};
