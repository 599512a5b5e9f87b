/* SPDX-License-Identifier: ISC */
/* attend.h - the argument of the kernels of attention. */
#ifndef QWEN_CUDA_ATTEND_H
#define QWEN_CUDA_ATTEND_H

#include "engine/cuda/kernel/group.h"
#include "engine/cuda/kernel/kv.h"

/*
 * A row of `in' has queries, each followed by its gate if step is 2 d, then keys,
 * then values.  The result of a query for a chunk of keys is in `part', [n][n_head]
 * [n_chunk][DEV_PART(d)]: the d numbers, the largest score, and the sum of weights.
 */
struct dev_attend {
	struct dev_pass		 pass;
	GLOBAL f32		*in;
	GLOBAL f32		*out;
	GLOBAL f32		*part;
	GLOBAL u8		*groups;	/* of out, or NULL */
	/*
	 * attend_few: NULL, or for each block of a chunk 0, before and after.  Then
	 * each row is the only one of its session, and the kernel also prepares
	 * queries, appends the key and value, and joins what chunks give.
	 */
	GLOBAL u32		*counter;
	const GLOBAL f32x2	*turn;		/* cos and sin */
	const GLOBAL f32	*q_norm, *k_norm;	/* or NULL */
	u64			 group_bytes;	/* of a row */
	u64			 block;		/* the layer's part of a slot */
	u32			 in_width, out_width, turn_width;
	u32			 d, n_head, n_head_kv, step, n_rot;
	u32			 k, v;		/* enum qwen_kv */
	u32			 first, n;	/* rows that attend */
	u32			 rows;		/* that attend together */
	u32			 n_chunk;
	u32			 place;		/* of numbers that are bad */
	u32			 two;		/* terms of groups */
	f32			 scale, eps;
};

enum {
	DEV_CHUNK = 256,		/* keys that are merged at once */
	DEV_PREPARE_WARPS = 4,		/* of a block; each has a head */
};

/*
 * attend_few: pieces of keys or values that are in the block's memory, and the
 * bytes of each.
 */
enum { DEV_FEW_THREADS = 128, DEV_FEW_SLOTS = 5, DEV_FEW_SLOT = 16896 };
#define DEV_FEW_SHARED(d, nq) ((u64)DEV_FEW_SLOTS * DEV_FEW_SLOT +	\
	((d) + DEV_CHUNK + DEV_FEW_THREADS / 32) * (u64)(nq) * sizeof(f32) + \
	DEV_CHUNK / QWEN_KV_BLOCK * sizeof(u64))

/* attend_tile: queries of a block */
enum { DEV_TILE_THREADS = 256, DEV_TILE = 64 };
#define DEV_TILE_SHARED ((DEV_CHUNK * (DEV_TILE + 4) +		\
	2 * 16 * (DEV_CHUNK + 4) + 6 * DEV_TILE) * sizeof(f32))

/* attend_integers: queries of a block */
enum { DEV_INTEGERS_THREADS = 128, DEV_INTEGERS = 16 };
#define DEV_INTEGERS_SHARED(d) (16 * sizeof(u64) + (DEV_INTEGERS *	\
	(DEV_CHUNK + 8 + 7) + DEV_CHUNK) * sizeof(f32) +		\
	2 * DEV_INTEGERS * (u64)((d) + 32))

/* attend_join: numbers of a block, which heads divide; chunks whose factors are in
   the block's memory */
enum { DEV_JOIN = 256, DEV_JOIN_SPAN = 32 };
#define DEV_JOIN_SHARED(d) ((DEV_JOIN / (d) * (3 * DEV_JOIN_SPAN + 1) +	\
	DEV_JOIN) * sizeof(f32))

#define DEV_PART(d) ((d) + 4)

#endif
