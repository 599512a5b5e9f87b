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
 *	TABLES_FROM	perhaps: tokens, from so many on tables(p, ng) is called
 *			for the ng groups of a panel
 */
#define ROWS (2 * LANES)

/*
 * fold(p, g, x, n, many, acc, ahead): add group g of n tokens, x[t] being that
 * group's activations, to acc[t][half], and fetch_ahead() for each 32 columns:
 * few lines at a time, for a burst would wait for places in the queue of those
 * that miss.  Constants where it is called: n, and many, that there are tables.
 */
PI void fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, int many, VEC (*acc)[2], struct ahead *ahead);

/* n tokens from t over ng groups from g0 of rows from r. */
PI void
panel_tile(const struct qwen_matmul *m, const struct panel *p, size_t r,
    size_t g0, size_t ng, size_t t, int n, int many, struct ahead *ahead)
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
		fold(p, g, x, n, many, acc, ahead);
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

#ifdef TABLES_FROM
PI void tables(struct panel *p, size_t ng);

#if MAX_TILE != 6 || TABLES_FROM < 20
#error "tokens with tables go by fives and sixes"
#endif
#define MANY(n_tok) ((n_tok) >= TABLES_FROM)
#else
#define MANY(n_tok) 0
#define tables(p, ng) ((void)0)
#endif

static void
panel_tokens(const struct qwen_matmul *m, const struct panel *p, size_t r,
    size_t g0, size_t ng, struct ahead *ahead)
{
	size_t t = 0, tiles = (m->n_tok + MAX_TILE - 1) / MAX_TILE, n;

	ahead->per_step = (ahead->n_row * ((ahead->bytes + 63) / 64) +
	    8 * tiles * ng - 1) / (8 * tiles * ng);
	/* near-equal tiles: 7 tokens are 4 + 3, not 6 + 1 */
	for (; t < m->n_tok; t += n, tiles--) {
		n = (m->n_tok - t + tiles - 1) / tiles;
#define CASE(k, many)							\
	case k:								\
		panel_tile(m, p, r, g0, ng, t, k, many, ahead);		\
		break
		if (MANY(m->n_tok)) {
			switch (n) {
			CASE(6, 1);
			CASE(5, 1);
			}
			continue;
		}
		switch (n) {
#if MAX_TILE > 4
		CASE(6, 0);
		CASE(5, 0);
#endif
		CASE(4, 0);
		CASE(3, 0);
		CASE(2, 0);
		CASE(1, 0);
		}
#undef CASE
	}
}

/*
 * Where a panel is.  Panels go row by row with their slices inside, or, where
 * the activations of all slices are too much for the second cache, slice by
 * slice: then those of one slice serve all rows while they are there.
 */
struct place {
	size_t	 r, g;		/* first row, first group */
	int	 by_slice;
};

#define MANY_BYTES ((size_t)256 << 10)

/* The next one; 0: there is none. */
PI int
step(const struct qwen_matmul *m, struct place *p)
{
	size_t groups = m->n_in / QWEN_GROUP;

	if (p->by_slice) {
		p->r += ROWS;
		if (p->r < m->r1)
			return 1;
		p->r = m->r0;
		p->g += SLICE;
		return p->g < groups;
	}
	p->g += SLICE;
	if (p->g < groups)
		return 1;
	p->g = 0;
	p->r += ROWS;
	return p->r < m->r1;
}

PI size_t
slice_at(const struct qwen_matmul *m, size_t g)
{
	size_t groups = m->n_in / QWEN_GROUP;

	return groups - g < SLICE ? groups - g : SLICE;
}

/* What the panel after this one is made of. */
static struct ahead
look_ahead(const struct qwen_matmul *m, struct place p)
{
	const unsigned char *w = m->next;
	struct ahead a = { .n_row = ROWS, .row_bytes = m->row_bytes };

	if (step(m, &p))
		w = m->w + p.r * m->row_bytes + p.g * BLOCK_BYTES;
	else
		p.g = 0;
	a.bytes = slice_at(m, p.g) * BLOCK_BYTES;
	a.row = (const char *)w;
	if (w == NULL)
		a.n_row = 0;
	return a;
}

/* Rows r0 .. r1-1 must be whole panels, n_in whole groups. */
static void
gemm(const struct qwen_matmul *m)
{
	struct place at = { .r = m->r0, .by_slice = m->n_tok *
	    (m->n_in / QWEN_GROUP) * sizeof(struct qwen_q8) > MANY_BYTES };
	struct ahead ahead;
	struct panel p;
	size_t n;

	do {
		n = slice_at(m, at.g);
		UNPACK(m, &p, at.r, at.g, n);
		if (MANY(m->n_tok))
			tables(&p, n);
		ahead = look_ahead(m, at);
		panel_tokens(m, &p, at.r, at.g, n, &ahead);
	} while (step(m, &at));
}
