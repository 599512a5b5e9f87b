/* SPDX-License-Identifier: ISC */
/* gemm_avx512vnni.c - y = Wx for many tokens, AVX-512 VNNI. */
#include "engine/cpu/kernel/x86/panel_vnni.h"

QWEN_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_avx512vnni_kernels[] = {
	PANEL_KERNELS(QWEN_FORMATS, 4)
};
