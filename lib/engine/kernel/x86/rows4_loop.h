/* SPDX-License-Identifier: ISC */
/* rows4_loop.h - matmul() over tile(p, r, nr, t, nt): see rows4.h. */

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
