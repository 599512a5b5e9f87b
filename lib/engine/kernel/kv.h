/* SPDX-License-Identifier: ISC */
/*
 * kv.h - where keys and values lie in a block of 16 positions of a layer: K of
 * all heads, then V of all heads.
 *
 * In f16 and f32 a head's K is [d][16 positions], so that scores have positions
 * in the lanes, and V [16][d], so that values have dimensions there.  As whole
 * numbers each is f16 scales [d/32][16], then a tile for each 32 of the
 * dimensions,
 *	K [16 pairs of dimensions][16 positions][2]
 *	V [8 pairs of positions][2 halves of the dimensions][16][2]
 * of int8_t in q8_0.  In q4_0 numbers are raised by 8, and two share a byte:
 * the lower four bits have the first half of K's pairs, or of V's dimensions,
 * the upper ones the other.  Both are of one position.
 */
#ifndef QWEN_KERNEL_KV_H
#define QWEN_KERNEL_KV_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/base.h"

#define QWEN_KV_BLOCK 16	/* positions */
#define QWEN_KV_GROUP 32	/* numbers with one scale */

/* Bytes of a tile. */
#define QWEN_KV_TILE(kv) ((kv) == QWEN_KV_Q8_0 ? 512u : 256u)

/* A layer's. */
struct qwen_kv_shape {
	size_t		 n_head, d;
	enum qwen_kv	 k, v;
};

/* Bytes of a float of f16 or f32; 0: the kind is of whole numbers. */
static inline size_t
qwen_kv_width(enum qwen_kv kv)
{
	return kv == QWEN_KV_F16 ? sizeof(uint16_t) : kv == QWEN_KV_F32 ?
	    sizeof(float) : 0;
}

/* Bytes of a head's keys in a block, or of its values; an even number. */
static inline size_t
qwen_kv_head_bytes(enum qwen_kv kv, size_t d)
{
	return qwen_kv_width(kv) > 0 ? d * QWEN_KV_BLOCK * qwen_kv_width(kv) :
	    d / QWEN_KV_GROUP * (QWEN_KV_BLOCK * sizeof(uint16_t) +
	    QWEN_KV_TILE(kv));
}

static inline size_t
qwen_kv_block_bytes(const struct qwen_kv_shape *s)
{
	return s->n_head * (qwen_kv_head_bytes(s->k, s->d) +
	    qwen_kv_head_bytes(s->v, s->d));
}

/* Where a head's keys begin in a block, and its values, in bytes. */
static inline size_t
qwen_kv_k_at(const struct qwen_kv_shape *s, size_t head)
{
	return head * qwen_kv_head_bytes(s->k, s->d);
}

static inline size_t
qwen_kv_v_at(const struct qwen_kv_shape *s, size_t head)
{
	return s->n_head * qwen_kv_head_bytes(s->k, s->d) +
	    head * qwen_kv_head_bytes(s->v, s->d);
}

#endif
