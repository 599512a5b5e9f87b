/* SPDX-License-Identifier: ISC */
/*
 * kv.h - the layout of keys and values in a block of 16 positions of a layer: K
 * of all heads, then V of all heads.
 *
 * In f16 and f32 a head's K is [d][16 positions], so that scores have positions
 * in the lanes, and V is [16][d], so that values have dimensions in the lanes.
 * As integers, K and V each are f16 scales [d/32][16], then one tile per 32
 * dimensions:
 *	K [16 pairs of dimensions][16 positions][2]
 *	V [8 pairs of positions][2 halves of the dimensions][16][2]
 * In q8_0 a number is an int8_t.  In q4_0 numbers are stored plus 8, two in a
 * byte: the lower four bits have the first half of K's pairs, or of V's
 * dimensions, the upper four bits the second half.  Both numbers of a byte
 * belong to the same position.
 */
#ifndef QWEN_QUANT_KV_H
#define QWEN_QUANT_KV_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/base.h"

#define QWEN_KV_BLOCK 16	/* positions of a block */
#define QWEN_KV_GROUP 32	/* numbers that share a scale */

/* Bytes of a tile. */
#define QWEN_KV_TILE(kv) ((kv) == QWEN_KV_Q8_0 ? 512u : 256u)

/* The shape of a layer's keys and values. */
struct qwen_kv_shape {
	size_t		 n_head, d;
	enum qwen_kv	 k, v;
};

/* Returns the bytes of a number of f16 or f32; 0 for integer types. */
static inline size_t
qwen_kv_width(enum qwen_kv kv)
{
	return kv == QWEN_KV_F16 ? sizeof(uint16_t) : kv == QWEN_KV_F32 ?
	    sizeof(float) : 0;
}

/* Returns the bytes of a head's keys, or values, in a block; an even number. */
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

/* Return the offset in bytes of a head's keys, or values, in a block. */
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

/* Returns the offset in bytes of a head's keys, or with is_v values, in a block. */
static inline size_t
qwen_kv_head_at(const struct qwen_kv_shape *s, size_t head, int is_v)
{
	return is_v ? qwen_kv_v_at(s, head) : qwen_kv_k_at(s, head);
}

/*
 * Returns the offset in bytes, in a head's keys or values, of number i of
 * position `at' (0 .. 15).  In q4_0, numbers i % 32 and 16 more share a byte.
 */
static inline size_t
qwen_kv_number_at(enum qwen_kv kv, size_t d, int is_v, size_t at, size_t i)
{
	const size_t width = qwen_kv_width(kv), tile = QWEN_KV_TILE(kv);
	size_t j = i % (kv == QWEN_KV_Q4_0 ? QWEN_KV_GROUP / 2 : QWEN_KV_GROUP);

	if (width > 0)
		return width * (is_v ? at * d + i : i * QWEN_KV_BLOCK + at);
	return d + i / QWEN_KV_GROUP * tile + (is_v ?
	    at / 2 * (tile / 8) + 2 * j + at % 2 : j / 2 * 32 + 2 * at + j % 2);
}

/* Zeroes positions from .. to - 1 of a block. */
void qwen_kv_clear(const struct qwen_kv_shape *s, uint16_t *block, size_t from,
    size_t to);

/*
 * Writes a head's key, or value, of position `at' (0 .. 15), as round_kv
 * returned it.
 */
void qwen_kv_put(const struct qwen_kv_shape *s, uint16_t *block, size_t head,
    int is_v, size_t at, const int8_t *q, const uint16_t *scale);

/*
 * For a KV block of 16 positions: qwen_kv_lane returns the position (0 .. 15)
 * of byte `at'.  The others take the n bytes at p, which begin at byte `at' of
 * the block: clear_lanes zeroes positions from `used' on; finite returns the
 * offset of the first scale or float that is NaN or infinite, or n.
 */
size_t qwen_kv_lane(const struct qwen_kv_shape *s, size_t at);
void qwen_kv_clear_lanes(const struct qwen_kv_shape *s, void *p, size_t at,
    size_t n, size_t used);
size_t qwen_kv_finite(const struct qwen_kv_shape *s, const void *p, size_t at,
    size_t n);

#endif
