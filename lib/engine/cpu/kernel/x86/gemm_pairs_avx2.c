/* SPDX-License-Identifier: ISC */
/* gemm_pairs_avx2.c - y = Wx for many tokens, AVX2: weights of 8 bits. */
#include "engine/cpu/kernel/x86/panel_pairs.h"

#define FORMATS(DO, ...)						\
	DO(q8_0, QT_Q8_0, __VA_ARGS__)					\
	DO(iq4_nl, QT_IQ4_NL, __VA_ARGS__)				\
	DO(iq4_xs, QT_IQ4_XS, __VA_ARGS__)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_pairs_avx2_kernels[] = {
	FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .packing = &packing,
	    .min_tok = 4, QWEN_AVX2)
	{ 0 }
};
