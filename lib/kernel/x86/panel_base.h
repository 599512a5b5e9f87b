/* SPDX-License-Identifier: ISC */
/* panel_base.h - what panels of any width need. */
#ifndef QWEN_KERNEL_PANEL_BASE_H
#define QWEN_KERNEL_PANEL_BASE_H

#include <immintrin.h>
#include <string.h>

#include "kernel/kernel.h"

#define PI static inline __attribute__((always_inline, unused))

/* For loops that index arrays of registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* gcc would make a tree of a chain of sums, which takes more registers. */
#define IN_ORDER(sum) __asm__("" : "+x"(sum))

/*
 * The bytes that the next panel will be made of: a segment of each row.
 * They are asked for a few lines at a time while tiles compute, since the
 * turning reads of unpacking would wait for every one of them.
 */
struct ahead {
	const char	*row;		/* NULL: nothing to fetch */
	size_t		 row_bytes;
	size_t		 bytes;		/* of a segment */
	size_t		 at, n_row;
	size_t		 per_group;	/* lines to ask for at each step */
};

PI void
fetch_ahead(struct ahead *a)
{
	size_t i;

	for (i = 0; i < a->per_group && a->n_row > 0; i++) {
		_mm_prefetch(a->row + a->at, _MM_HINT_T0);
		a->at += 64;
		if (a->at >= a->bytes) {
			a->at = 0;
			a->row += a->row_bytes;
			a->n_row--;
		}
	}
}

#endif
