/* SPDX-License-Identifier: ISC */
/*
 * gemm_amx.c - y = Wx for many tokens, AMX: Q4_K, Q5_K and Q6_K.
 *
 * From how many tokens on, here and in other files: where tiles were faster than
 * AVX-512 on a Sapphire Rapids, whose sums of 16 columns take longer than those
 * of 32; formats that were not measured follow those that are like them.
 */
#include "engine/cpu/kernel/x86/amx_planes.h"

#define FORMATS(DO)							\
	DO(q4_k, QT_Q4_K, 32)						\
	DO(q5_k, QT_Q5_K, 32)						\
	DO(q6_k, QT_Q6_K, 16)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_amx)[] = {
	FORMATS(AMX_ENTRY)
	{ 0 }
};
