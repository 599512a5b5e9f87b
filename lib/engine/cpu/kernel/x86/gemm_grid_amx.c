/* SPDX-License-Identifier: ISC */
/* gemm_grid_amx.c - y = Wx for many tokens, AMX: weights of grids. */
#include "engine/cpu/kernel/x86/amx_planes.h"

#define FORMATS(DO)							\
	DO(iq1_s, QT_IQ1_S, 32)						\
	DO(iq1_m, QT_IQ1_M, 16)						\
	DO(iq2_xxs, QT_IQ2_XXS, 32)					\
	DO(iq2_xs, QT_IQ2_XS, 16)					\
	DO(iq2_s, QT_IQ2_S, 16)						\
	DO(iq3_xxs, QT_IQ3_XXS, 32)					\
	DO(iq3_s, QT_IQ3_S, 32)

FORMATS(QWEN_PRODUCT)

const struct qwen_kernel AMX_KERNELS(gemm_grid_amx)[] = {
	FORMATS(AMX_ENTRY)
	{ 0 }
};
