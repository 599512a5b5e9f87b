/* SPDX-License-Identifier: ISC */
/* gemm_k_avxvnni.c - y = Wx for many tokens, AVX-VNNI: more k-quants. */
#include "engine/cpu/kernel/x86/panel_vnni.h"

QWEN_K_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_k_avxvnni_kernels[] = {
	PANEL_KERNELS(QWEN_K_FORMATS, 4)
};
