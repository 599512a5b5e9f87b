/* SPDX-License-Identifier: ISC */
/* lora.h - arguments of the kernel of lora.c. */
#ifndef QWEN_CUDA_KERNEL_LORA_H
#define QWEN_CUDA_KERNEL_LORA_H

#include "engine/cuda/kernel/dev.h"

enum { DEV_LOW_ROWS = 64 };	/* rows of a block of B, and threads */

/*
 * Rows 0 .. n_out - 1 of y are rows r and on of B, which is in blocks of
 * DEV_LOW_ROWS rows, column after column.
 */
struct dev_lora {
	const GLOBAL f32	*b;
	const GLOBAL f32	*low;	/* [rank] of each row of y */
	GLOBAL f32		*y;
	const GLOBAL u32	*at, *first;	/* as in struct dev_product */
	u64			 b_expert;	/* numbers of the B of a matrix */
	u64			 y_stride;
	u32			 rank, r, n_out, n_matrix;
};

#endif
