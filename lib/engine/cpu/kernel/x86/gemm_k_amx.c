/* SPDX-License-Identifier: ISC */
/* gemm_k_amx.c - y = Wx for many tokens, AMX: more k-quants. */
#include "engine/cpu/kernel/x86/amx_planes.h"

#define FORMATS(DO)							\
	DO(q2_k, QT_Q2_K, 16)						\
	DO(q3_k, QT_Q3_K, 16)						\
	DO(iq4_xs, QT_IQ4_XS, 32)					\
	DO(tq1_0, QT_TQ1_0, 32)						\
	DO(tq2_0, QT_TQ2_0, 32)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_k_amx)[] = {
	FORMATS(AMX_ENTRY)
	{ 0 }
};
