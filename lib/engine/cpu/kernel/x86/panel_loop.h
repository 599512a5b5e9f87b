/* SPDX-License-Identifier: ISC */
/*
 * panel_loop.h - product(): loops over panels and tiles.
 *
 * The including file defines struct panel, fold(), and
 *	SLICE		groups of 256 in a panel
 *	MAX_TILE	tokens in a tile, 4 or 6
 *	TILE(type)	of this format, if that is fewer
 *	TOKEN		a token's group as fold() takes it, if not struct
 *			qwen_q8: packed, for AVX2
 *	TABLES_FROM	minimum tokens for which a format's tables are made, by
 *			tables(), if it has any
 */
#define ROWS (2 * (size_t)LANES)
#ifndef TILE
#define TILE(type) MAX_TILE
#endif

/*
 * Packed tokens are those of AVX2.  broadcast() returns the 4 bytes at p in all
 * lanes, add_pairs() sum + a * b for pairs of int16.
 */
#ifdef TOKEN
KERNEL_INLINE const TOKEN *
token_at(const struct qwen_matmul *m, size_t t)
{
	return (const TOKEN *)m->packed + t * (m->n_in / QWEN_GROUP);
}

KERNEL_INLINE wide_i
broadcast(const void *p)
{
	return _mm256_set1_epi32(dword_at(p));
}

KERNEL_INLINE wide_i
add_pairs(wide_i sum, wide_i a, wide_i b)
{
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
	IN_ORDER(sum);
	return sum;
}
#else
KERNEL_INLINE wide_i broadcast(const void *p);
KERNEL_INLINE wide_i add_pairs(wide_i sum, wide_i a, wide_i b);

#define TOKEN struct qwen_q8
KERNEL_INLINE const TOKEN *
token_at(const struct qwen_matmul *m, size_t t)
{
	return m->x[t];
}
#endif

/*
 * The place of a panel.  Panels go row by row, with their slices inside.  If
 * the activations of all slices exceed the second-level cache, they go slice by
 * slice: then the activations of one slice serve all rows while they are
 * cached.
 */
struct panel_place {
	size_t	 r, g;		/* first row, first group */
	int	 by_slice;
};

#ifdef TABLES_FROM
/* Makes tables for ng groups, shared by many tokens. */
KERNEL_INLINE void tables(uint32_t type, struct panel *p, size_t ng);
#endif

/*
 * Adds group g of n tokens to acc[t][half]; x[t] has the group's activations.
 * Calls fetch_ahead() for each 32 columns: a few lines at a time, since a burst
 * would wait for places in the queue of cache misses. type, n, and many (there
 * are tables) are constants at each call.
 */
KERNEL_INLINE void fold(uint32_t type, const struct panel *p, size_t g,
    const TOKEN *const *x, int n, int many, wide_f (*acc)[2],
    struct ahead *ahead);

/*
 * Makes the float step of a group from its integer sums, minus that of its
 * minimums, if it has any.
 */
KERNEL_INLINE void
add_group(uint32_t type, const struct panel *p, size_t g,
    const TOKEN *const *x, int n, wide_i (*sum)[2],
    wide_f (*acc)[2])
{
	const int has_min = qwen_traits[type].has_min;
	const int by16 = qwen_traits[type].span == 16;
	const int n_min = !has_min ? 0 : by16 ? 8 : 4;
	int j, t, h;

	UNROLL
	for (t = 0; t < n; t++) {
		wide_f scale = MM(set1_ps)(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++) {
			wide_i min = (wide_i)MM(setzero_ps)();

			UNROLL
			for (j = 0; j < n_min; j++)
				min = add_pairs(min,
				    load_i(p->min[g][j] + LANES * h),
				    broadcast((by16 ? x[t]->asum16 :
				    x[t]->asum) + 2 * j));
			acc[t][h] = MM(fmadd_ps)(MM(load_ps)(p->d[g][0] +
			    LANES * h) * scale, MM(cvtepi32_ps)(sum[t][h]),
			    acc[t][h]);
			if (has_min)
				acc[t][h] =
				    MM(fnmadd_ps)(MM(load_ps)(p->dmin[g] +
				    LANES * h) * scale, MM(cvtepi32_ps)(min),
				    acc[t][h]);
		}
	}
}

/*
 * The same for a group with several d: the parts are given, and those of
 * minimums are computed here.
 */
KERNEL_INLINE void
add_parts(uint32_t type, const struct panel *p, size_t g,
    const TOKEN *const *x, int n, wide_f (*part)[2],
    wide_f (*acc)[2])
{
	int j, t, h;

	UNROLL
	for (t = 0; t < n; t++) {
		wide_f scale = MM(set1_ps)(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++) {
			wide_f min = MM(setzero_ps)();

			acc[t][h] = MM(fmadd_ps)(scale, part[t][h], acc[t][h]);
			if (!qwen_traits[type].has_min)
				continue;
			UNROLL
			for (j = 0; j < 8; j++)
				min = MM(fmadd_ps)(MM(load_ps)(p->m[g][j] +
				    LANES * h), MM(set1_ps)(
				    (float)x[t]->asum[j]), min);
			acc[t][h] = MM(fmadd_ps)(scale, min, acc[t][h]);
		}
	}
}

/*
 * Multiplies n tokens from t on with the panel: ng groups from g0 on of rows
 * from r on.
 */
KERNEL_INLINE void
panel_tile(uint32_t type, const struct qwen_matmul *m, const struct panel *p,
    size_t r, size_t g0, size_t ng, size_t t, int n, int many,
    struct ahead *ahead)
{
	const TOKEN *x[MAX_TILE];
	wide_f acc[MAX_TILE][2];
	size_t g;
	int i;

	UNROLL
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		x[i] = token_at(m, t + (size_t)i) + g0;
		acc[i][0] = g0 == 0 ? MM(setzero_ps)() : MM(loadu_ps)(y);
		acc[i][1] = g0 == 0 ? MM(setzero_ps)() : MM(loadu_ps)(y +
		    LANES);
	}
	for (g = 0; g < ng; g++) {
		fold(type, p, g, x, n, many, acc, ahead);
		UNROLL
		for (i = 0; i < n; i++)
			x[i]++;
	}
	UNROLL
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		MM(storeu_ps)(y, acc[i][0]);
		MM(storeu_ps)(y + LANES, acc[i][1]);
	}
}

#ifdef TABLES_FROM
#if MAX_TILE != 6 || TABLES_FROM < 20
#error "tokens with tables go by fives and sixes"
#endif
#define MANY(n_tok) ((n_tok) >= TABLES_FROM)
#else
#define MANY(n_tok) 0
#endif

/* Multiplies all tokens with a panel. */
KERNEL_INLINE void
panel_tokens(uint32_t type, const struct qwen_matmul *m,
    const struct panel *p, size_t r, size_t g0, size_t ng,
    struct ahead *ahead)
{
	const size_t most = TILE(type);
	size_t t = 0, tiles = (m->n_tok + most - 1) / most, n;

	ahead->per_step = (ahead->n_row * ((ahead->bytes + 63) / 64) +
	    8 * tiles * ng - 1) / (8 * tiles * ng);
	/* tiles of nearly equal size: 7 tokens are 4 + 3, not 6 + 1 */
	for (; t < m->n_tok; t += n, tiles--) {
		n = (m->n_tok - t + tiles - 1) / tiles;
#define CASE(k, many)							\
	case k:								\
		panel_tile(type, m, p, r, g0, ng, t, k, many, ahead);		\
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

#define MANY_BYTES ((size_t)256 << 10)

/* Moves to the next panel; returns 0 if there is none. */
KERNEL_INLINE int
step(const struct qwen_matmul *m, struct panel_place *p)
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

KERNEL_INLINE size_t
slice_at(const struct qwen_matmul *m, size_t g)
{
	size_t groups = m->n_in / QWEN_GROUP;

	return groups - g < SLICE ? groups - g : SLICE;
}

/*
 * Returns prefetches for a share of the rows after these with each slice, in
 * memory order.  So memory is read as one stream; with few tokens there is no
 * time to wait for segments of separate rows.
 */
static struct ahead
look_far(const struct qwen_matmul *m, struct panel_place p)
{
	const size_t groups = m->n_in / QWEN_GROUP;
	const size_t all = ROWS * m->row_bytes, from = all * p.g / groups;
	const unsigned char *w = p.r + ROWS < m->r1 ?
	    m->w + (p.r + ROWS) * m->row_bytes : m->next;
	struct ahead a = { .n_row = w != NULL, .far = 1 };

	if (w != NULL)
		a.row = (const char *)w + from;
	a.bytes = all * (p.g + slice_at(m, p.g)) / groups - from;
	return a;
}

/* Returns prefetches for the next panel, or for the rows after these. */
static struct ahead
look_ahead(const struct qwen_matmul *m, struct panel_place p)
{
	const unsigned char *w = m->next;
	const size_t bytes = group_bytes(m);
	struct ahead a = { .n_row = ROWS, .row_bytes = m->row_bytes };

	if (!p.by_slice)
		return look_far(m, p);
	if (step(m, &p))
		w = m->w + p.r * m->row_bytes + p.g * bytes;
	else
		p.g = 0;
	a.bytes = slice_at(m, p.g) * bytes;
	a.row = (const char *)w;
	if (w == NULL)
		a.n_row = 0;
	return a;
}

/* Rows r0 .. r1-1 must be whole panels, n_in whole groups. */
KERNEL_INLINE void
product(uint32_t type, const struct qwen_matmul *m)
{
	struct panel_place at = { .r = m->r0, .by_slice = m->n_tok *
	    (m->n_in / QWEN_GROUP) * sizeof(TOKEN) > MANY_BYTES };
	struct ahead ahead;
	struct panel p;
	size_t n;

	do {
		n = slice_at(m, at.g);
		unpack_panel(type, m, &p, at.r, at.g, n);
#ifdef TABLES_FROM
		if (MANY(m->n_tok))
			tables(type, &p, n);
#endif
		ahead = look_ahead(m, at);
		panel_tokens(type, m, &p, at.r, at.g, n, &ahead);
	} while (step(m, &at));
}
