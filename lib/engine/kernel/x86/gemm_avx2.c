/* SPDX-License-Identifier: ISC */
/* gemm_avx2.c - y = Wx for many tokens, AVX2. */
#include "engine/kernel/x86/panel256.h"

QWEN_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_avx2_kernels[] = {
	PANEL_KERNELS(QWEN_FORMATS, 3)
};
