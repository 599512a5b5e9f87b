/* SPDX-License-Identifier: ISC */
/* gemm_dotprod.c - y = Wx for many tokens, SDOT. */
#include "engine/cpu/kernel/arm/panel.h"

const struct qwen_kernel qwen_gemm_dotprod_kernels[] = {
	PANEL_KERNELS(QWEN_DOTPROD)
};
