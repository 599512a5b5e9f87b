/* SPDX-License-Identifier: ISC */
/*
 * amx_rows.h - the product with AMX in version 1; included at the end of
 * amx_planes.h and amx_blocks.h.  Panels of 32 rows in a slice of columns; the
 * slice's tokens fit in the second-level cache.  Sums of 256 rows stay in
 * separate memory, as rows by tokens, from slice to slice.
 */
#define MAX_TILES 12		/* tiles of tokens in one part */
#define MAX_PANELS 8		/* panels of rows in one part */
#define SLICE_BYTES ((size_t)1 << 20)	/* bytes of tokens in a slice */

/*
 * A part of the product: rows r0 .. r1-1, at most MAX_PANELS panels, by tiles
 * of tokens t0 .. t1-1.
 */
struct panel_rows {
	const struct qwen_matmul *m;
	size_t	r0, r1, t0, t1;
	size_t	groups;		/* of a row */
	size_t	slice;		/* groups of a slice */
};

/* The place of a panel: its first row and its group. */
struct amx_panel_place {
	size_t	r, g;
};

/*
 * Moves to the next panel: through the groups of a slice, then the rows, then
 * the slices.  Returns 0 after the last.
 */
KERNEL_INLINE int
next_panel(const struct panel_rows *part, struct amx_panel_place *at)
{
	size_t from = at->g - at->g % part->slice;

	if (++at->g < part->groups && at->g < from + part->slice)
		return 1;
	if ((at->r += PANEL) < part->r1) {
		at->g = from;
		return 1;
	}
	at->r = part->r0;
	return at->g < part->groups;
}

KERNEL_INLINE const unsigned char *
rows_at(uint32_t type, const struct panel_rows *part, struct amx_panel_place at)
{
	return part->m->w + at.r * part->m->row_bytes + at.g * bytes_of(type);
}

/*
 * Sets up u to unpack the panel after this place while this one is multiplied.
 */
KERNEL_INLINE void
plan_unpack(uint32_t type, const struct panel_rows *part,
    struct amx_panel_place at, struct unpacking *u, struct panel *to)
{
	u->p = to;
	u->r = 0;
	u->end = 0;
	u->ahead = NULL;
	if (!next_panel(part, &at))
		return;
	u->end = PANEL;
	u->w = rows_at(type, part, at);
	if (next_panel(part, &at))
		u->ahead = rows_at(type, part, at);
	else if (part->r1 < part->m->r1)
		u->ahead = part->m->w + part->r1 * part->m->row_bytes;
	else
		u->ahead = part->m->next;
}

KERNEL_INLINE void
product_part(uint32_t type, const struct panel_rows *part)
{
	const struct qwen_matmul *m = part->m;
	struct panel p[PANELS_ALIVE];
	float acc[MAX_PANELS][MAX_TILES][2][TILE][TILE]
	    __attribute__((aligned(64)));
	struct work k;
	struct amx_panel_place at = { part->r0, 0 };
	struct unpacking u = { .p = p, .w = rows_at(type, part, at),
	    .row_bytes = m->row_bytes, .end = PANEL, .per_step = PANEL,
	    .direct = is_direct(type, m) };
	size_t steps = 16 * (part->t1 - part->t0), n = 0, t, h, i;

	get_ready(&k, m);
	unpack_some(type, &u);
	u.per_step = (PANEL + steps - 1) / steps;
	do {
		i = (at.r - part->r0) / PANEL;
		plan_unpack(type, part, at, &u, &p[(n + 1) % PANELS_ALIVE]);
		for (t = part->t0; t < part->t1; t++) {
			for (h = 0; h < 2; h++) {
				struct block b = { &p[n % PANELS_ALIVE],
				    (const struct pack *)m->packed +
				    t * part->groups + at.g,
				    rows_at(type, part, at) +
				    TILE * h * m->row_bytes, m->row_bytes,
				    acc[i][t - part->t0][h], (int)h,
				    at.g == 0, u.direct };

				begin_panel(type, &k, &b, &u);
			}
		}
		n++;
	} while (next_panel(part, &at));
	end_panel(type, &k, &u);
	for (i = 0; i < (part->r1 - part->r0) / PANEL; i++) {
		for (t = part->t0; t < part->t1; t++) {
			for (h = 0; h < 2; h++)
				put_sums(acc[i][t - part->t0][h], m->y +
				    TILE * t, part->r0 + PANEL * i + TILE * h,
				    m->n_tok - TILE * t < TILE ?
				    m->n_tok - TILE * t : TILE);
		}
	}
}

/*
 * Rows r0 .. r1-1 must be whole panels, n_in whole groups, tokens packed.
 *
 * Tiles are released before returning, since the thread may sleep next: a core
 * with tiles in use saves 8 KiB more at a context switch and cannot sleep
 * deeply.  Releasing is one instruction per call, which takes at least
 * microseconds.
 */
KERNEL_INLINE void
product(uint32_t type, const struct qwen_matmul *m)
{
	struct amx_config c = { .palette = 1 };
	const size_t tiles = (m->n_tok + TILE - 1) / TILE;
	struct panel_rows part = { .m = m, .groups = m->n_in / QWEN_GROUP };

	configure(type, &c);
	amx_config(&c);
	for (; part.t0 < tiles; part.t0 = part.t1) {
		part.t1 = tiles - part.t0 < MAX_TILES ? tiles :
		    part.t0 + MAX_TILES;
		part.slice = SLICE_BYTES / ((part.t1 - part.t0) *
		    sizeof(struct pack));
		for (part.r0 = m->r0; part.r0 < m->r1; part.r0 = part.r1) {
			part.r1 = part.r0 + MAX_PANELS * PANEL;
			if (part.r1 > m->r1)
				part.r1 = m->r1;
			product_part(type, &part);
		}
	}
	amx_release();
}
