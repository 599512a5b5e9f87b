/* SPDX-License-Identifier: ISC */
/*
 * attn.h - attention of some queries over a chunk of keys.  A score is a chain
 * of fma over the dimensions, ascending; a sum of values one over the keys.
 * Where keys or values are integers, the sums of their products are exact.
 */
#ifndef QWEN_KERNEL_ATTN_H
#define QWEN_KERNEL_ATTN_H

#include <stddef.h>
#include <stdint.h>

#include "engine/quant/kv.h"

/*
 * A query for integer keys, stored in the place of d floats: q[i] is about
 * scale * the int16_t i; the scale is the float at index d / 2.
 */
static inline float
qwen_kv_query_scale(const float *q, size_t d)
{
	return q[d / 2];
}

/* Keys are processed in chunks at fixed absolute positions. */
#define QWEN_ATTN_CHUNK	256
#define QWEN_ATTN_MAX_Q	64

/* Returns the floats of scratch memory for a head size. */
#define QWEN_ATTN_WORK(d) (QWEN_ATTN_MAX_Q * QWEN_ATTN_CHUNK + \
	32 * ((d) > QWEN_ATTN_CHUNK ? (d) : QWEN_ATTN_CHUNK))

/*
 * Softmax attention of some queries over the keys of one chunk, for one kv
 * head: m = max, l = sum of exp(score - m), o = sum of exp(score - m) v.  If
 * merge is set, the results are merged into m, l and o of the chunks before.  A
 * query sees the keys below its limit; if the chunk has none of them, its m, l
 * and o are unchanged.  Several queries share the reading of keys and values;
 * with eight, memory is the limit.
 */
struct qwen_attn {
	size_t			 d;	/* head size, a multiple of 16; of 32 if
					   k or v is not f16 */
	size_t			 n_zero;	/* numbers at the end of a head
						   that are 0 in q and v, and any
						   in o: even, below 16 */
	enum qwen_kv		 k, v;
	size_t			 n_q;	/* 1 .. QWEN_ATTN_MAX_Q */
	const float		*q[QWEN_ATTN_MAX_Q];	/* scaled and rotated;
							   if k is not f16, as
							   ->query makes them */
	size_t			 limit[QWEN_ATTN_MAX_Q];
	size_t			 chunk;	/* keys from position chunk * 256 on */
	int			 merge;
	uint16_t *const		*block;	/* KV blocks of the layer, from 0 */
	uint16_t *const		*next;	/* blocks of the chunk that comes next,
					   as a cache hint; or NULL */
	size_t			 k_off;	/* offset of the head's K in a block, in
					   uint16_t, */
	size_t			 v_off;	/* and of its V */
	float			*m, *l;	/* [n_q] */
	float			*o[QWEN_ATTN_MAX_Q];	/* [d] */
	float			*work;	/* QWEN_ATTN_WORK(d), aligned to 64 */
};

#endif
