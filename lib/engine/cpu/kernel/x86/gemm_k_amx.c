/* SPDX-License-Identifier: ISC */
/* gemm_k_amx.c - y = Wx for many tokens, AMX: more k-quants. */
#include "engine/cpu/kernel/x86/amx_planes.h"

QWEN_K_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_k_amx)[] = {
	QWEN_K_FORMATS(QWEN_ENTRY, AMX_GEMM)
	{ 0 }
};
