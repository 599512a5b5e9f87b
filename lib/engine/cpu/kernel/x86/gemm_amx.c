/* SPDX-License-Identifier: ISC */
/* gemm_amx.c - y = Wx for many tokens, AMX: Q4_K, Q5_K and Q6_K. */
#include "engine/cpu/kernel/x86/amx_planes.h"

QWEN_COMMON_K_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_amx)[] = {
	QWEN_COMMON_K_FORMATS(QWEN_ENTRY, AMX_GEMM)
	{ 0 }
};
