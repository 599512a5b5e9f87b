/* SPDX-License-Identifier: ISC */
/*
 * ones.h - the argument of one.c: products of one row of activations, and what is
 * done with their results in the same launch.
 */
#ifndef QWEN_CUDA_ONES_H
#define QWEN_CUDA_ONES_H

#include "engine/cuda/kernel/experts.h"
#include "engine/cuda/kernel/norm.h"
#include "engine/cuda/kernel/product.h"
#include "engine/cuda/kernel/route.h"

enum { ONE_WARPS = 8, ONE_THREADS = 32 * ONE_WARPS, ONE_UNITS = 16,
    ONE_FLOATS = ONE_THREADS / 16,	/* rows of floats of a block */
    ONE_SIDE = 68 };	/* bytes of a group beside its numbers */

/*
 * Bytes of shared memory of a block.  A row of activations has nb groups, and each
 * warp multiplies it by `rows' rows of weights.
 */
#define ONE_BYTES(nb, rows)						\
	((nb) * (256 + ONE_SIDE) + 16 + ONE_WARPS * (rows) * (nb) * 16)

/* What is done with results; ONES_COMBINE may be before ONES_NORM. */
enum {
	ONES_SILU = 1,		/* each 256 numbers, when they are there */
	ONES_ROUTE = 2,		/* the others when all blocks have ended */
	ONES_COMBINE = 4,
	ONES_NORM = 8
};

enum { ONES_MAX = 3, ONES_FLOATS = F_BLOCK + 1 };

struct dev_ones {
	struct dev_product	 p[ONES_MAX];
	/*
	 * Of each product: enum dev_format, or ONES_FLOATS and the kind; its
	 * blocks and those before it; blocks of a pair; the first row of `silu'
	 * that it makes, and where it begins there: 0, or n if it makes `up'.
	 */
	u32			 format[ONES_MAX], end[ONES_MAX];
	u32			 blocks[ONES_MAX], row[ONES_MAX];
	u32			 column[ONES_MAX];
	u32			 then;
	GLOBAL u32		*counter;	/* 0 before and after */
	struct dev_rows		 silu;
	struct dev_route	 route;
	struct dev_combine	 combine;
	struct dev_norm		 norm;
};

#endif
