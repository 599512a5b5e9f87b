/* SPDX-License-Identifier: ISC */
/*
 * row_tile.h - loops over tiles of four, or ROW_COUNT, rows.  ROW_SUMS is the
 * function that computes a tile, like those of rows4.h, for the formats
 * ROW_FORMATS.  If ROW_PLAIN(type) is defined, ROW_SUMS has an argument before
 * ahead: 1 for a token's two rows of version 4, for formats where
 * ROW_PLAIN(type) is true.
 */
#ifndef ROW_COUNT
#define ROW_COUNT 4
#endif

/*
 * Multiplies nr rows from r on (the last is repeated to make four) with nt
 * tokens from t on.
 */
KERNEL_INLINE void
tile(uint32_t type, const struct qwen_matmul *p, size_t r, size_t nr, size_t t,
    int nt)
{
	const unsigned char *w[ROW_COUNT], *ahead = ahead_of(p, ROW_COUNT, r);
	const struct qwen_q8 *x[4];
	__m128 acc[ROW_COUNT];
	float out[ROW_COUNT];
	size_t i;
	int j;

	for (i = 0; i < ROW_COUNT; i++)
		w[i] = p->w + (r + (i < nr ? i : nr - 1)) * p->row_bytes;
	for (j = 0; j < nt; j++)
		x[j] = p->x[t + (size_t)j];
	for (j = 0; j < nt * ROW_COUNT / 4; j++)
		acc[j] = _mm_setzero_ps();
#ifdef ROW_PLAIN
	if (ROW_PLAIN(type) && nt == 2 && p->plain)
		ROW_SUMS(type, w, x, p->n_in, nt, 1, ahead, acc);
	else
		ROW_SUMS(type, w, x, p->n_in, nt, 0, ahead, acc);
#else
	ROW_SUMS(type, w, x, p->n_in, nt, ahead, acc);
#endif
	for (j = 0; j < nt; j++) {
		for (i = 0; i < ROW_COUNT / 4; i++)
			_mm_storeu_ps(out + 4 * i,
			    acc[(size_t)j * (ROW_COUNT / 4) + i]);
		memcpy(p->y[t + (size_t)j] + r, out, nr * sizeof *out);
	}
}

#include "engine/cpu/kernel/rows4.inc"
