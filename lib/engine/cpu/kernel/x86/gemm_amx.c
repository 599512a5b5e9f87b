/* SPDX-License-Identifier: ISC */
/* gemm_amx.c - y = Wx for many tokens, AMX: Q4_K, Q5_K and Q6_K. */
#include "engine/cpu/kernel/x86/amx_planes.h"

#define FORMATS(DO, ...)						\
	DO(q4_k, QT_Q4_K, __VA_ARGS__)					\
	DO(q5_k, QT_Q5_K, __VA_ARGS__)					\
	DO(q6_k, QT_Q6_K, __VA_ARGS__)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_amx)[] = {
	FORMATS(QWEN_ENTRY, AMX_GEMM)
	{ 0 }
};
