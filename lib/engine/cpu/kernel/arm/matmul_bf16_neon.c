/* SPDX-License-Identifier: ISC */
/* matmul_bf16_neon.c - products in bf16, NEON. */
#define VEC_NEON
#include "engine/cpu/kernel/matmul_bf16.inc"
#include "engine/cpu/kernel/arm/floats16.h"

AI void
fill_group(uint32_t type, const unsigned char *const *row,
    struct panel_bf16 *to, struct ahead *ahead)
{
	(void)ahead;
	floats_group(type, row, to->w);
}

QWEN_16_BIT_FLOATS(FORMAT_BF16)

const struct qwen_kernel qwen_matmul_bf16_neon_kernels[] = {
	MATMUL_BF16_KERNELS(QWEN_NEON)
};
