/* SPDX-License-Identifier: ISC */
/* gemm_grid_avx512vnni.c - y = Wx for many tokens, AVX-512 VNNI: weights of grids. */
#include "engine/cpu/kernel/x86/panel_vnni.h"

QWEN_GRID_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_grid_avx512vnni_kernels[] = {
	PANEL_KERNELS(QWEN_GRID_FORMATS, 5)
};
