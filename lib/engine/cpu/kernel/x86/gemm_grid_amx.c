/* SPDX-License-Identifier: ISC */
/* gemm_grid_amx.c - y = Wx for many tokens, AMX: weights of grids. */
#include "engine/cpu/kernel/x86/amx_planes.h"

QWEN_GRID_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_grid_amx)[] = {
	QWEN_GRID_FORMATS(QWEN_ENTRY, AMX_GEMM)
	{ 0 }
};
