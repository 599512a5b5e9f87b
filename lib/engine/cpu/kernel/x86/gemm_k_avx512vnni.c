/* SPDX-License-Identifier: ISC */
/* gemm_k_avx512vnni.c - y = Wx for many tokens, AVX-512 VNNI: more k-quants. */
#include "engine/cpu/kernel/x86/panel_vnni.h"

QWEN_K_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_k_avx512vnni_kernels[] = {
	PANEL_KERNELS(QWEN_K_FORMATS, 4)
};
