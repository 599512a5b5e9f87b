/* SPDX-License-Identifier: ISC */
/* matmul_bf16_neon.c - products in bf16, NEON. */
#define VEC_NEON
#include "engine/kernel/matmul_bf16.inc"
#include "engine/kernel/arm/dequant.h"

#define FORMAT_BF16(name, type, ...)					\
static void								\
fill_##name(const unsigned char *const *row, struct panel_bf16 *to,	\
    struct ahead *ahead)						\
{									\
	(void)ahead;							\
	dequant_group(type, row, to->w);				\
}									\
static void								\
product_##name(const struct qwen_matmul *m)				\
{									\
	matmul_bf16(m, fill_##name);					\
}

QWEN_ALL_FORMATS(FORMAT_BF16)

#define FLOATS_BF16(name, type)						\
static void								\
fill_##name(const unsigned char *const *row, struct panel_bf16 *to,	\
    struct ahead *ahead)						\
{									\
	(void)ahead;							\
	floats_group(type, row, to->w);					\
}									\
static void								\
product_##name(const struct qwen_matmul *m)				\
{									\
	matmul_bf16(m, fill_##name);					\
}

FLOATS_BF16(f16, QT_F16)
FLOATS_BF16(bf16, QT_BF16)

const struct qwen_kernel qwen_matmul_bf16_neon_kernels[] = {
	ANY_BF16(QWEN_NEON)
	QWEN_ALL_FORMATS(QWEN_ENTRY, .op = QWEN_OP_MATMUL_BF16, QWEN_NEON)
	QWEN_ENTRY(f16, QT_F16, .op = QWEN_OP_MATMUL_BF16, QWEN_NEON)
	QWEN_ENTRY(bf16, QT_BF16, .op = QWEN_OP_MATMUL_BF16, QWEN_NEON)
	{ 0 }
};
