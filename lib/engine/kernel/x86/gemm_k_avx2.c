/* SPDX-License-Identifier: ISC */
/* gemm_k_avx2.c - y = Wx for many tokens, AVX2: more k-quants. */
#include "engine/kernel/x86/panel256.h"

QWEN_K_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_k_avx2_kernels[] = {
	PANEL_KERNELS(QWEN_K_FORMATS, 4)
};
