/* SPDX-License-Identifier: ISC */
/*
 * rowdot_32.h - rows of blocks of 32 with a scale each, times up to four
 * tokens.  The including file has defined BLOCK_BYTES and group(): add up to
 * eight blocks, which share the activations' scale, to acc.
 */
#include "engine/kernel/x86/rows4.h"

RI void group(const unsigned char *const *w, const struct qwen_q8 *const *x,
    size_t g, size_t nb, int nt, __m128 *acc);

/* nr rows from r (the last is repeated to make four), nt tokens from t. */
RI void
tile(const struct qwen_matmul *p, size_t r, size_t nr, size_t t, int nt)
{
	const unsigned char *w[4], *ahead = ahead_of(p, r);
	const struct qwen_q8 *x[4];
	__m128 acc[4];
	size_t i, b, n = p->n_in / 32, nb;
	int j;

	four_rows(p, r, nr, w);
	for (j = 0; j < nt; j++) {
		x[j] = p->x[t + (size_t)j];
		acc[j] = _mm_setzero_ps();
	}
	for (b = 0; b < n; b += nb) {
		nb = n - b < 8 ? n - b : 8;
		prefetch(ahead + 4 * b * BLOCK_BYTES, 4 * nb * BLOCK_BYTES);
		group(w, x, b / 8, nb, nt, acc);
		for (i = 0; i < 4; i++)
			w[i] += nb * BLOCK_BYTES;
	}
	for (j = 0; j < nt; j++)
		store_rows(p, r, nr, t + (size_t)j, acc[j]);
}

#include "engine/kernel/x86/rows4_loop.h"
