/* SPDX-License-Identifier: ISC */
/* ahead.h - memory asked for before it is needed. */
#ifndef QWEN_KERNEL_AHEAD_H
#define QWEN_KERNEL_AHEAD_H

#include <stddef.h>

/*
 * The bytes that the next panel will be made of: a segment of each row; or,
 * further ahead, a share of the rows after these as one.  They are asked for a
 * few lines at a time while tiles compute, since the turning reads of unpacking
 * would wait for every one of them.
 */
struct ahead {
	const char	*row;		/* NULL: nothing to fetch */
	size_t		 row_bytes;
	size_t		 bytes;		/* of a segment */
	size_t		 at, n_row;
	size_t		 per_step;	/* lines to ask for at each step */
	int		 far;		/* to the second cache */
};

/* All of it in so many steps. */
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
