/* SPDX-License-Identifier: ISC */
/* matmul_neon.c - y = Wx, x in 8 bits, NEON. */
#include "engine/cpu/kernel/arm/rows4.h"

const struct qwen_kernel qwen_matmul_neon_kernels[] = {
	ROW_KERNELS(QWEN_NEON)
	{ 0 }
};
