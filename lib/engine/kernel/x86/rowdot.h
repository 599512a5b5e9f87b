/* SPDX-License-Identifier: ISC */
/*
 * rowdot.h - rows as the file has them times 8-bit activations, four rows and
 * up to four tokens at a time, for formats with 256 weights under one d.
 *
 * A file that includes this has defined
 *	BLOCK_BYTES, D_AT
 *	struct block, and unpack() into it from the file's bytes
 *	dot(): eight int32 that add up to the integer sum of a block
 * and gets matmul().  Sums are exact, so their order is free; the float step a
 * block is that of the scalar definition.
 */
#include "engine/kernel/x86/rows4.h"

/* nr rows from r (the last is repeated to make four), nt tokens from t. */
RI void
tile(const struct qwen_matmul *p, size_t r, size_t nr, size_t t, int nt)
{
	const unsigned char *w[4], *ahead = ahead_of(p, r);
	const struct qwen_q8 *x[4];
	__m128 acc[4];
	size_t b, i, n = p->n_in / QWEN_GROUP;
	int j;

	four_rows(p, r, nr, w);
	for (j = 0; j < nt; j++) {
		x[j] = p->x[t + (size_t)j];
		acc[j] = _mm_setzero_ps();
	}
	for (b = 0; b < n; b++) {
		__m256i sum[4][4];
		__m128 d = load_d4(w, D_AT);
		struct block u;

		for (i = 0; i < 4; i++) {
			prefetch(ahead + (4 * b + i) * BLOCK_BYTES,
			    BLOCK_BYTES);
			unpack(w[i], &u);
			for (j = 0; j < nt; j++)
				sum[j][i] = dot(&u, x[j] + b);
		}
		for (j = 0; j < nt; j++)
			acc[j] = _mm_fmadd_ps(_mm_mul_ps(d,
			    _mm_set1_ps(x[j][b].d)),
			    _mm_cvtepi32_ps(sum8x4(sum[j])), acc[j]);
		for (i = 0; i < 4; i++)
			w[i] += BLOCK_BYTES;
	}
	for (j = 0; j < nt; j++)
		store_rows(p, r, nr, t + (size_t)j, acc[j]);
}

#include "engine/kernel/x86/rows4_loop.h"
