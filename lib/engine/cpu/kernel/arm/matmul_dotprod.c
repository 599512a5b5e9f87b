/* SPDX-License-Identifier: ISC */
/* matmul_dotprod.c - y = Wx, x in 8 bits, SDOT. */
#include "engine/cpu/kernel/arm/rows4.h"

const struct qwen_kernel qwen_matmul_dotprod_kernels[] = {
	ROW_KERNELS(QWEN_DOTPROD)
	{ 0 }
};
