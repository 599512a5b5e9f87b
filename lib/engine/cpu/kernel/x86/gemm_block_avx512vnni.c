/* SPDX-License-Identifier: ISC */
/* gemm_block_avx512vnni.c - y = Wx for many tokens, AVX-512 VNNI: small blocks. */
#include "engine/cpu/kernel/x86/panel_vnni.h"

QWEN_BLOCK_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_block_avx512vnni_kernels[] = {
	PANEL_KERNELS(QWEN_BLOCK_FORMATS, 4)
};
