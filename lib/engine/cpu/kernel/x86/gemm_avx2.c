/* SPDX-License-Identifier: ISC */
/* gemm_avx2.c - y = Wx for many tokens, AVX2. */
#include "engine/cpu/kernel/x86/panel_bytes.h"

#define FORMATS(DO, ...)						\
	DO(q4_k, QT_Q4_K, __VA_ARGS__)					\
	DO(q5_k, QT_Q5_K, __VA_ARGS__)					\
	DO(q6_k, QT_Q6_K, __VA_ARGS__)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_avx2_kernels[] = {
	PANEL_KERNELS(FORMATS, 3)
};
