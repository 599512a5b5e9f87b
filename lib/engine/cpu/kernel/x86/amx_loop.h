/* SPDX-License-Identifier: ISC */
/*
 * amx_loop.h - the loop over tiles for many tokens with AMX, for all numerics
 * versions.  A panel has 32 rows and a slice of groups.  The loop goes over the
 * slices, and in each slice over the rows.
 */
#ifndef QWEN_KERNEL_AMX_LOOP_H
#define QWEN_KERNEL_AMX_LOOP_H

#include "engine/cpu/kernel/x86/amx.h"
#include "engine/cpu/kernel/x86/base.h"

#define TILE_TOKENS 16

/* The tokens, slice and rows that a call works on. */
struct amx_tile_place {
	size_t	t, n_tok;	/* tokens t .. t + n_tok - 1 */
	size_t	tiles, rows;	/* tiles of tokens, and rows of a tile */
	size_t	g, ng;		/* groups g .. g + ng - 1 of the slice */
	size_t	r;		/* first row of the panel */
};

/* Returns the tokens of a tile. */
KERNEL_INLINE size_t
tokens_of(const struct amx_tile_place *at, size_t tile)
{
	size_t first = tile * at->rows;

	return at->n_tok - first < at->rows ? at->n_tok - first : at->rows;
}

/*
 * Moves to the next tokens, up to `tiles' tiles; returns 0 if there are none.
 */
KERNEL_INLINE int
next_tokens(const struct qwen_matmul *m, struct amx_tile_place *at,
    size_t tiles)
{
	at->t += at->n_tok;
	at->n_tok = m->n_tok - at->t < tiles * TILE_TOKENS ?
	    m->n_tok - at->t : tiles * TILE_TOKENS;
	if (at->n_tok == 0)
		return 0;
	/* tiles of nearly equal size: 17 tokens are 9 + 8, not 16 + 1 */
	at->tiles = (at->n_tok + TILE_TOKENS - 1) / TILE_TOKENS;
	at->rows = (at->n_tok + at->tiles - 1) / at->tiles;
	at->g = at->ng = 0;
	return 1;
}

/*
 * Moves to the next slice, of up to `groups' groups; returns 0 if there is
 * none.
 */
KERNEL_INLINE int
next_slice(const struct qwen_matmul *m, struct amx_tile_place *at,
    size_t groups)
{
	size_t left;

	at->g += at->ng;
	left = m->n_in / QWEN_GROUP - at->g;
	at->ng = left < groups ? left : groups;
	return at->ng > 0;
}

/*
 * Returns the prefetches for the panel after this one, whose slice has up to
 * `groups' groups, in `steps' steps.
 */
KERNEL_INLINE struct ahead
look_ahead(const struct qwen_matmul *m, struct amx_tile_place at, size_t groups,
    size_t steps)
{
	struct ahead a = { .n_row = 32, .row_bytes = m->row_bytes };
	const unsigned char *w;

	if (at.r + 32 < m->r1) {
		w = m->w + (at.r + 32) * m->row_bytes;
	} else if (next_slice(m, &at, groups)) {
		w = m->w + m->r0 * m->row_bytes;
	} else {
		w = m->next;
		at.g = at.ng = 0;
		next_slice(m, &at, groups);
	}
	if (w == NULL)
		return (struct ahead){ 0 };
	a.row = (const char *)w + at.g * group_bytes(m);
	a.bytes = at.ng * group_bytes(m);
	a.per_step = (a.n_row * ((a.bytes + 63) / 64) + steps - 1) / steps;
	return a;
}

KERNEL_INLINE void
tile_shape(struct amx_config *c, int tile, size_t rows, size_t colsb)
{
	c->rows[tile] = (uint8_t)rows;
	c->colsb[tile] = (uint16_t)colsb;
}

#endif
