/* SPDX-License-Identifier: ISC */
/* gemm_k_avx2.c - y = Wx for many tokens, AVX2: more k-quants. */
#include "engine/cpu/kernel/x86/panel_bytes.h"

#define FORMATS(DO, ...)						\
	DO(q2_k, QT_Q2_K, __VA_ARGS__)					\
	DO(q3_k, QT_Q3_K, __VA_ARGS__)					\
	DO(tq1_0, QT_TQ1_0, __VA_ARGS__)				\
	DO(tq2_0, QT_TQ2_0, __VA_ARGS__)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_k_avx2_kernels[] = {
	PANEL_KERNELS(FORMATS, 4)
};
