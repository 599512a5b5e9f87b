/* SPDX-License-Identifier: ISC */
/*
 * columns.h - which rows of x a block multiplies: they are the columns of its
 * tile, all with the same matrix.  With two terms, a row has two columns.
 */
#ifndef QWEN_CUDA_COLUMNS_H
#define QWEN_CUDA_COLUMNS_H

#include "engine/cuda/kernel/product.h"

struct dev_columns {
	u32		 matrix, n;	/* n columns; 0: nothing to do */
	SHARED u32	*x, *y;		/* [tile] rows of each column */
};

/* Bytes of shared memory for a tile of `tile' columns. */
#define DEV_COLUMN_BYTES(tile) (16 + 8 * (tile))

enum { FIND_MATRICES = 9 };	/* that a lane reads at once */

/*
 * Finds tile number bid() of the pairs, where each matrix begins a new tile of up
 * to 2^bits; a warp comes, each lane with some neighbouring matrices.  found:
 * matrix, first pair, number of pairs.
 */
DEV void
find_pairs(const struct dev_product *a, u32 bits, SHARED u32 *found)
{
	const u32 n = 1u << bits, lane = tid() & 31, some = (a->n_matrix + 31) / 32;
	u32 first[FIND_MATRICES + 1], e, i, k, o, tiles = 0, upto;

	if (lane == 0)
		found[2] = 0;
	for (k = 0; k < some; k += FIND_MATRICES) {
		UNROLL for (i = 0; i <= FIND_MATRICES; i++) {
			e = lane * some + (k + i < some ? k + i : some);
			first[i] = a->first[e < a->n_matrix ? e : a->n_matrix];
		}
		UNROLL for (i = 0; i < FIND_MATRICES; i++)
			tiles += (first[i + 1] - first[i] + n - 1) >> bits;
	}
	upto = tiles;
	for (i = 1; i < 32; i *= 2) {
		o = (u32)shfl((s32)upto, (lane - i) & 31);
		upto += lane >= i ? o : 0;
	}
	warp_bar();
	if (bid() < upto - tiles || bid() >= upto)
		return;
	o = bid() - (upto - tiles);
	for (e = lane * some;; o -= i, e++) {
		k = a->first[e + 1] - a->first[e];
		i = (k + n - 1) >> bits;
		if (o < i)
			break;
	}
	found[0] = e;
	found[1] = a->first[e] + o * n;
	found[2] = k - o * n < n ? k - o * n : n;
}

/*
 * Finds the columns of tile bid(), of `tile' at most, a power of two; the block
 * comes.
 */
DEV struct dev_columns
find_columns(const struct dev_product *a, u32 tile, SHARED u32 *memory)
{
	const u32 bits = (tile >= 2) + (tile >= 4) + (tile >= 8) +
	    (tile >= 16) + (tile >= 32) + (tile >= 64) - a->two;
	const u32 rows = tile >> a->two;
	struct dev_columns c = { .x = memory + 4, .y = memory + 4 + tile };
	u32 first = bid() * rows, n, i, t;

	if (a->at != (void *)0) {
		if (tid() < 32)
			find_pairs(a, bits, memory);
		bar();
		c.matrix = memory[0];
		first = memory[1];
		n = memory[2];
	} else {
		n = a->n - first < rows ? a->n - first : rows;
	}
	c.n = n << a->two;
	for (i = tid(); i < tile && n > 0; i += n_threads()) {
		t = first + (i >> a->two < n ? i >> a->two : n - 1);
		c.y[i] = a->at != (void *)0 ? a->at[t] : t;
		c.x[i] = a->at != (void *)0 ? c.y[i] / a->per : t;
	}
	bar();
	return c;
}

/* Returns group b of a column. */
DEV const GLOBAL struct dev_group *
group_of(const struct dev_product *a, const struct dev_columns *c, u32 column,
    u32 b)
{
	return (const GLOBAL struct dev_group *)(a->groups +
	    c->x[column] * a->group_bytes) + b +
	    (column & a->two) * ((a->n_in + 255) / 256);
}

#endif
