/* SPDX-License-Identifier: ISC */
/* deltanet.h - arguments of the kernels of deltanet.c and delta_rule.c. */
#ifndef QWEN_CUDA_DELTANET_H
#define QWEN_CUDA_DELTANET_H

#include "engine/cuda/kernel/args.h"

enum {
	DELTA_JOURNAL = 16,	/* rows of a journal: QWEN_GUESS_MAX */
	DELTA_THREADS = 128,	/* of a block of delta_prepare, delta_finish */
	DELTA_ROWS = 8,		/* rows of such a block: 16 threads each */
	DELTA_GROUPS = 4,	/* groups of a block of delta_finish_128 */
	DELTA_COLUMNS = 32,	/* columns of a state in a block of the rule */
	/* delta_step and delta_rule: numbers of a head, and of a token in the
	   block's memory q, k, a value for each column, and the gates */
	DELTA_K = 128,
	DELTA_TAPS = 4,		/* of delta_step */
	DELTA_TOKEN = 2 * DELTA_K + DELTA_COLUMNS + 4,
	DELTA_AHEAD = 16,	/* tokens that delta_rule has room for, with
				   changes of eight */
	DELTA_RULE_NUMBERS = DELTA_AHEAD * DELTA_TOKEN + 8 * DELTA_COLUMNS,
	DELTA_WARPS = 3,	/* of a block of delta_rule */
	DELTA_STEPS = 16,	/* rows of a session that delta_step takes */
	DELTA_RING = DELTA_STEPS + DELTA_JOURNAL	/* tokens that it has
							   room for */
};

struct dev_delta {
	struct dev_pass		 pass;
	u32			 n_share;
	u32			 n_head_k, n_head_v, dk, dv, taps;
	u32			 grouped, by_key;
	u32			 columns;	/* of a block of delta_any */
	f32			 eps, q_scale;
	u32			 in_stride, o_stride, made_stride; /* in f32 */
	const GLOBAL f32	*in;	/* rows as in qwen_delta_row */
	GLOBAL f32		*o;
	/*
	 * Of each row: q, k and v as the rule takes them, then, from gates_at() on,
	 * four numbers for each value head: decay, beta, and two that are unused.
	 */
	GLOBAL f32		*made;
	const GLOBAL f32	*conv, *a, *dt, *norm;
	/* results as integers, group_bytes a row, or NULL; two: in two terms */
	GLOBAL u8		*groups;
	u64			 group_bytes;
	u32			 two, pad;
	/*
	 * delta_step: NULL, or for each share a counter of each of its groups, and
	 * of each key head, 0 before and after.  Then each share has one row, which
	 * is sure, and the kernel does all that delta_finish does.
	 */
	GLOBAL u32		*counter;
	/* struct qwen_cuda_place */
	u64			 s, state_conv, journal, journal_row;
	/* the only share, which has no rows, if pass.share is NULL */
	struct dev_share	 alone;
};

#endif
