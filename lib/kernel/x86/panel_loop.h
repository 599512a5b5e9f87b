/* SPDX-License-Identifier: ISC */
/*
 * panel_loop.h - the product, panel by panel and tile by tile: gemm().
 *
 * The including file has defined, besides struct panel,
 *	VEC, LANES	a register of f32, and how many of a panel's rows it
 *			is for: half of them
 *	LOAD, STORE, ZERO	of that register, from anywhere
 *	SLICE		groups of 256 in a panel
 *	MAX_TILE	tokens in a tile, 4 or 6
 *	UNPACK		the function that fills a panel
 */
#define ROWS (2 * LANES)

/*
 * fold(p, g, x, n, acc): add group g of n tokens, x[t] being that group's
 * activations, to acc[t][half].  n is a constant where it is called.
 */
PI void fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, VEC (*acc)[2]);

/* n tokens from t over ng groups from g0 of rows from r. */
PI void
panel_tile(const struct qwen_matmul *m, const struct panel *p, size_t r,
    size_t g0, size_t ng, size_t t, int n, struct ahead *ahead)
{
	const struct qwen_q8 *x[MAX_TILE];
	VEC acc[MAX_TILE][2];
	size_t g;
	int i;

	UNROLL
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		x[i] = (const struct qwen_q8 *)m->x[t + (size_t)i] + g0;
		acc[i][0] = g0 == 0 ? ZERO() : LOAD(y);
		acc[i][1] = g0 == 0 ? ZERO() : LOAD(y + LANES);
	}
	for (g = 0; g < ng; g++) {
		fetch_ahead(ahead);
		fold(p, g, x, n, acc);
		UNROLL
		for (i = 0; i < n; i++)
			x[i]++;
	}
	UNROLL
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		STORE(y, acc[i][0]);
		STORE(y + LANES, acc[i][1]);
	}
}

static void
panel_tokens(const struct qwen_matmul *m, const struct panel *p, size_t r,
    size_t g0, size_t ng, struct ahead *ahead)
{
	size_t t = 0, tiles = (m->n_tok + MAX_TILE - 1) / MAX_TILE, n;

	ahead->per_group = (ahead->n_row * ((ahead->bytes + 63) / 64) +
	    tiles * ng - 1) / (tiles * ng);
	/* near-equal tiles: 7 tokens are 4 + 3, not 6 + 1 */
	for (; t < m->n_tok; t += n, tiles--) {
		n = (m->n_tok - t + tiles - 1) / tiles;
		switch (n) {
#define CASE(k)								\
		case k:							\
			panel_tile(m, p, r, g0, ng, t, k, ahead);	\
			break
#if MAX_TILE > 4
		CASE(6);
		CASE(5);
#endif
		CASE(4);
		CASE(3);
		CASE(2);
		CASE(1);
#undef CASE
		}
	}
}

/* What follows the slice that ends at group g of rows from r. */
static struct ahead
look_ahead(const struct qwen_matmul *m, size_t r, size_t g)
{
	size_t groups = m->n_in / QWEN_GROUP;
	const unsigned char *w = m->next;
	struct ahead a = { .n_row = ROWS, .row_bytes = m->row_bytes };

	if (g < groups)
		w = m->w + r * m->row_bytes + g * BLOCK_BYTES;
	else if (r + ROWS < m->r1)
		w = m->w + (r + ROWS) * m->row_bytes;
	g %= groups;
	a.bytes = (groups - g < SLICE ? groups - g : SLICE) * BLOCK_BYTES;
	a.row = (const char *)w;
	if (w == NULL)
		a.n_row = 0;
	return a;
}

/* Rows r0 .. r1-1 must be whole panels, n_in whole groups. */
static void
gemm(const struct qwen_matmul *m)
{
	struct panel p;
	struct ahead ahead;
	size_t r, g, n, groups = m->n_in / QWEN_GROUP;

	for (r = m->r0; r < m->r1; r += ROWS) {
		for (g = 0; g < groups; g += n) {
			n = groups - g < SLICE ? groups - g : SLICE;
			UNPACK(m, &p, r, g, n);
			ahead = look_ahead(m, r, g + n);
			panel_tokens(m, &p, r, g, n, &ahead);
		}
	}
}
