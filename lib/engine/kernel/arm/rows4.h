/* SPDX-License-Identifier: ISC */
/*
 * rows4.h - rows as the file has them, four at a time, times up to four
 * tokens.  The including file gives sums(): add n groups' worth of four rows
 * from w to acc, one vector a token; and gets matmul().
 */
#include "engine/kernel/arm/dot.h"

AI void sums(const struct qwen_matmul *p, const unsigned char *const *w,
    const struct qwen_q8 *const *x, int nt, float32x4_t *acc);

/*
 * Ask for the bytes four rows further on, where the next tile begins: a row is
 * too short for the hardware to see a stream in it.  A hint never faults.
 */
AI void
prefetch_next(const struct qwen_matmul *p, const unsigned char *w,
    size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += 64)
		__builtin_prefetch(w + 4 * p->row_bytes + i);
}

/* nr rows from r (the last is repeated to make four), nt tokens from t. */
AI void
tile(const struct qwen_matmul *p, size_t r, size_t nr, size_t t, int nt)
{
	const unsigned char *w[4];
	const struct qwen_q8 *x[4];
	float32x4_t acc[4];
	float out[4];
	size_t i;
	int j;

	for (i = 0; i < 4; i++)
		w[i] = p->w + (r + (i < nr ? i : nr - 1)) * p->row_bytes;
	for (j = 0; j < nt; j++) {
		x[j] = p->x[t + (size_t)j];
		acc[j] = vdupq_n_f32(0.0f);
	}
	sums(p, w, x, nt, acc);
	for (j = 0; j < nt; j++) {
		vst1q_f32(out, acc[j]);
		memcpy(p->y[t + (size_t)j] + r, out, nr * sizeof *out);
	}
}

static void
matmul(const struct qwen_matmul *p)
{
	size_t r, t, nr;

	for (r = p->r0; r < p->r1; r += nr) {
		nr = p->r1 - r < 4 ? p->r1 - r : 4;
		for (t = 0; t + 4 <= p->n_tok; t += 4)
			tile(p, r, nr, t, 4);
		switch (p->n_tok - t) {
		case 3:
			tile(p, r, nr, t, 3);
			break;
		case 2:
			tile(p, r, nr, t, 2);
			break;
		case 1:
			tile(p, r, nr, t, 1);
			break;
		}
	}
}
