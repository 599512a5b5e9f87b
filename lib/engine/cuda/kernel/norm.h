/* SPDX-License-Identifier: ISC */
/* norm.h - arguments of the kernels of norm.c. */
#ifndef QWEN_CUDA_NORM_H
#define QWEN_CUDA_NORM_H

#include "engine/cuda/kernel/args.h"
#include "engine/cuda/kernel/group.h"

/* Strides are in numbers; a row of groups has group_bytes. */
struct dev_norm {
	struct dev_pass			 pass;
	GLOBAL f32			*x;
	const GLOBAL f32		*out;	/* added to x first, or NULL */
	const GLOBAL f32		*weights;
	GLOBAL f32			*xn;
	GLOBAL u8			*groups;	/* or NULL */
	u64				 x_stride, out_stride, xn_stride;
	u64				 group_bytes;
	u32				 n;		/* numbers of a row */
	f32				 eps;
	u32				 two;		/* terms */
	u32				 place, check_all;
};

/*
 * Norms half rows of x, n numbers each: even ones by weights[0], others by
 * weights[1].  Those whose `there' is 0 stay as they are.
 */
struct dev_join {
	GLOBAL f32		*x;
	const GLOBAL f32	*weights[2];
	const GLOBAL u32	*there;
	u32			 n;
	f32			 eps;
};

/* Numbers of rows x to groups; with up, silu(x) * up is written to x before. */
struct dev_rows {
	GLOBAL f32		*x;
	const GLOBAL f32	*up;		/* or NULL */
	GLOBAL u8		*groups;	/* or NULL */
	u64			 stride, group_bytes;
	u32			 n;		/* numbers of a row */
	u32			 n_row, two;
};

#endif
