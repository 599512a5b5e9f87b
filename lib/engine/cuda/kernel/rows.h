/* SPDX-License-Identifier: ISC */
/* rows.h - arguments of the kernels of rows.c. */
#ifndef QWEN_CUDA_ROWS_H
#define QWEN_CUDA_ROWS_H

#include "engine/cuda/kernel/args.h"

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

/* Row i of x += vector `layer' of row pass.row[i].deep - 1 of y. */
struct dev_deep {
	struct dev_pass		 pass;
	GLOBAL f32		*x;
	const GLOBAL f32	*y;	/* [rows][n_layer][n] */
	u32			 n, layer, n_layer;
};

#endif
