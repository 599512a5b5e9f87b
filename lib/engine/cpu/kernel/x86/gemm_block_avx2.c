/* SPDX-License-Identifier: ISC */
/* gemm_block_avx2.c - y = Wx for many tokens, AVX2: small blocks. */
#include "engine/cpu/kernel/x86/panel_bytes.h"

#define FORMATS(DO, ...)						\
	DO(q4_0, QT_Q4_0, __VA_ARGS__)					\
	DO(q4_1, QT_Q4_1, __VA_ARGS__)					\
	DO(q5_0, QT_Q5_0, __VA_ARGS__)					\
	DO(q5_1, QT_Q5_1, __VA_ARGS__)					\
	DO(mxfp4, QT_MXFP4, __VA_ARGS__)				\
	DO(nvfp4, QT_NVFP4, __VA_ARGS__)				\
	DO(q2_0, QT_Q2_0, __VA_ARGS__)					\
	DO(q1_0, QT_Q1_0, __VA_ARGS__)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_block_avx2_kernels[] = {
	PANEL_KERNELS(FORMATS, 4)
};
