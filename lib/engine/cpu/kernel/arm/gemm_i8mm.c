/* SPDX-License-Identifier: ISC */
/* gemm_i8mm.c - y = Wx for many tokens, SMMLA. */
#include "engine/cpu/kernel/arm/panel.h"

const struct qwen_kernel qwen_gemm_i8mm_kernels[] = {
	PANEL_KERNELS(QWEN_I8MM)
};
