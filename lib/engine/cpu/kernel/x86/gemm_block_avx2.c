/* SPDX-License-Identifier: ISC */
/* gemm_block_avx2.c - y = Wx for many tokens, AVX2: small blocks. */
#include "engine/cpu/kernel/x86/panel_bytes.h"

#define FORMATS(DO, ...)						\
	QWEN_OLD_FORMATS(DO, __VA_ARGS__)				\
	DO(nvfp4, QT_NVFP4, __VA_ARGS__)				\
	DO(q2_0, QT_Q2_0, __VA_ARGS__)					\
	DO(q1_0, QT_Q1_0, __VA_ARGS__)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_block_avx2_kernels[] = {
	PANEL_KERNELS(FORMATS, 4)
};
