/* SPDX-License-Identifier: ISC */
/* gemm_grid_avx2.c - y = Wx for many tokens, AVX2: weights of grids. */
#include "engine/cpu/kernel/x86/panel_bytes.h"

QWEN_GRID_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_grid_avx2_kernels[] = {
	PANEL_KERNELS(QWEN_GRID_FORMATS, 5)
};
