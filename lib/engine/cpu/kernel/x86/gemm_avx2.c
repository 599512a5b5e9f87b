/* SPDX-License-Identifier: ISC */
/* gemm_avx2.c - y = Wx for many tokens, AVX2. */
#include "engine/cpu/kernel/x86/panel_bytes.h"

QWEN_COMMON_K_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_avx2_kernels[] = {
	PANEL_KERNELS(QWEN_COMMON_K_FORMATS, 3)
};
