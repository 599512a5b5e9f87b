/* SPDX-License-Identifier: ISC */
/* ahead.h - prefetching. */
#ifndef QWEN_KERNEL_AHEAD_H
#define QWEN_KERNEL_AHEAD_H

#include <stddef.h>

/*
 * Memory to prefetch: the bytes of the next panel, a segment of each row; or,
 * further ahead, a share of the rows after these, as one segment.  A few lines
 * are prefetched at a time while tiles are computed, since the transposing
 * reads of unpacking would wait for each line.
 */
struct ahead {
	const char	*row;		/* NULL: nothing to fetch */
	size_t		 row_bytes;
	size_t		 bytes;		/* bytes of a segment */
	size_t		 at, n_row;
	size_t		 per_step;	/* cache lines to prefetch at each
					   step */
	int		 far;		/* prefetch to the second-level cache */
};

/* Spreads the prefetches over this number of steps. */
static inline __attribute__((always_inline, unused)) void
spread_ahead(struct ahead *a, size_t steps)
{
	a->per_step = (a->n_row * ((a->bytes + 63) / 64) + steps - 1) / steps;
}

static inline __attribute__((always_inline, unused)) void
fetch_ahead(struct ahead *a)
{
	size_t i;

	for (i = 0; i < a->per_step && a->n_row > 0; i++) {
		if (a->far)
			__builtin_prefetch(a->row + a->at, 0, 2);
		else
			__builtin_prefetch(a->row + a->at);
		a->at += 64;
		if (a->at >= a->bytes) {
			a->at = 0;
			a->row += a->row_bytes;
			a->n_row--;
		}
	}
}

#endif
