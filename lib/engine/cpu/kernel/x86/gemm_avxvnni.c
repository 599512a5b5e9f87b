/* SPDX-License-Identifier: ISC */
/* gemm_avxvnni.c - y = Wx for many tokens, AVX-VNNI. */
#include "engine/cpu/kernel/x86/panel_vnni.h"

QWEN_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_avxvnni_kernels[] = {
	PANEL_KERNELS(QWEN_FORMATS, 3)
};
