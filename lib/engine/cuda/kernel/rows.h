/* SPDX-License-Identifier: ISC */
/* rows.h - arguments of the kernels of rows.c. */
#ifndef QWEN_CUDA_ROWS_H
#define QWEN_CUDA_ROWS_H

#include "engine/cuda/kernel/dev.h"

struct dev_add {
	GLOBAL f32		*x;
	const GLOBAL f32	*y;
	u32			 n;
};

struct dev_gather {
	const GLOBAL f32	*x;
	const GLOBAL u32	*at;
	GLOBAL f32		*y;
	u32			 n;	/* numbers of a row */
};

#endif
