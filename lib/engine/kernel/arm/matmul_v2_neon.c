/* SPDX-License-Identifier: ISC */
/* matmul_v2_neon.c - products of numerics version 2, NEON. */
#define VEC_NEON
#include "engine/kernel/matmul_v2.inc"
#include "engine/kernel/arm/dequant.h"

#define FORMAT_V2(name, type, ...)					\
static void								\
fill_##name(const unsigned char *const *row, struct panel_v2 *to)	\
{									\
	dequant_group(type, row, to->w);				\
}									\
static void								\
product_##name(const struct qwen_matmul *m)				\
{									\
	matmul_v2(m, fill_##name);					\
}

QWEN_ALL_FORMATS(FORMAT_V2)

const struct qwen_kernel qwen_matmul_v2_neon_kernels[] = {
	ANY_V2(QWEN_NEON)
	QWEN_ALL_FORMATS(QWEN_ENTRY, .op = QWEN_OP_MATMUL_V2, QWEN_NEON)
	{ 0 }
};
