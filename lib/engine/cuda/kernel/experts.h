/* SPDX-License-Identifier: ISC */
/* experts.h - arguments of the kernel of experts.c. */
#ifndef QWEN_CUDA_EXPERTS_H
#define QWEN_CUDA_EXPERTS_H

#include "engine/cuda/kernel/dev.h"

enum { COMBINE_THREADS = 64 };

struct dev_combine {
	/*
	 * Results of a row's `used' experts, at row * used + i; then those of the
	 * shared one, of each row, if has_shared.
	 */
	const GLOBAL f32	*y;
	const GLOBAL f32	*share;
	GLOBAL f32		*out;
	u32			 n, used, n_embd, has_shared;
	/* from one row to the next, in numbers */
	u32			 y_stride, share_stride, out_stride;
};

#endif
