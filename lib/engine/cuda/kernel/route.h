/* SPDX-License-Identifier: ISC */
/* route.h - arguments of the kernels of route.c. */
#ifndef QWEN_CUDA_ROUTE_H
#define QWEN_CUDA_ROUTE_H

#include "engine/cuda/kernel/dev.h"

enum {
	ROUTE_WARPS = 32,		/* of a block, one for a row, at most */
	ROUTE_SORT_THREADS = 1024
};

/*
 * Numbers, of 4 bytes, in a block's memory: for each row of `route', and to sort.
 */
#define ROUTE_NUMBERS(n_expert, used) ((n_expert) + 3 * (used) + 1)

struct dev_route {
	const GLOBAL f32	*logit;	/* the shared expert's is the last */
	GLOBAL f32		*share;		/* likewise */
	GLOBAL u32		*chosen;
	/*
	 * Number row * each + i of at is expert chosen[i] of the row, after
	 * sorting by expert; those of expert e begin at first[e].  each is used,
	 * or 1 more if expert n_expert is the shared one.
	 */
	GLOBAL u32		*at, *first;
	u32			 n, n_expert, used, each;
	/* from one row to the next, in numbers */
	u32			 logit_stride, share_stride, chosen_stride;
	u32			 has_shared, share_of_all;
	f32			 scale;
};

#endif
