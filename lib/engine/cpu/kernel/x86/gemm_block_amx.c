/* SPDX-License-Identifier: ISC */
/*
 * gemm_block_amx.c - y = Wx for many tokens, AMX: a d for each 32 weights.  With
 * one for 16 (NVFP4) a product would be half a tile deep, and take as long as a
 * whole one; those with one for more are left to AVX-512, too.
 */
#include "engine/cpu/kernel/x86/amx_blocks.h"

#define FORMATS(DO, ...)						\
	DO(q8_0, QT_Q8_0, __VA_ARGS__)					\
	DO(iq4_nl, QT_IQ4_NL, __VA_ARGS__)				\
	QWEN_OLD_FORMATS(DO, __VA_ARGS__)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_block_amx)[] = {
	FORMATS(QWEN_ENTRY, AMX_GEMM)
	{ 0 }
};
