/* SPDX-License-Identifier: ISC */
/*
 * amx_panel.h - many tokens with AMX in versions 1 and 4: the loops over rows
 * and columns, shared by the formats with planes (amx_planes.h) and with blocks
 * (amx_blocks.h).
 *
 * A *block* is the work of 16 rows, 16 tokens and 256 columns.  Weights are the
 * first operand, with rows as in the file, so unpacking transposes nothing.
 * Tokens are the second operand, transposed once for all rows (struct
 * qwen_packing).  A row of a product has one row's sums with 16 tokens.
 *
 * A panel is unpacked at once, then multiplied by all tokens: with a second
 * panel, tokens and sums would not fit in the first-level cache.  A group's
 * columns of up to 256 rows are multiplied before the next group's, so that
 * the group's tokens stay in the second-level cache, as do the sums.
 */
#ifndef QWEN_KERNEL_AMX_PANEL_H
#define QWEN_KERNEL_AMX_PANEL_H

#include "engine/cpu/kernel/x86/amx.h"
#include "engine/cpu/kernel/x86/decode.h"
#include "engine/cpu/kernel/x86/turn.h"

#define TILE QWEN_PACK_TOKENS	/* rows, and tokens, of a tile */
#define PART_TILES 12		/* tiles of tokens in a part */
#define PART_ROWS 256		/* rows in a part */
#define FAR_TOKENS 64		/* with more tokens there is time to wait for
				   the rows of the next panel */
#define STEPS 8			/* calls of fetch() in a block */

/* For long loops that contain tile instructions. */
#ifdef __clang__
#define ROLLED _Pragma("clang loop unroll(disable)")
#define UNROLL16 UNROLL
#else
#define ROLLED _Pragma("GCC unroll 1")
#define UNROLL16 _Pragma("GCC unroll 16")
#endif

/*
 * The including file defines, before, a group of 16 tokens and one of 16 rows,
 * struct pack and struct panel; the sums of a block, struct sums; how many
 * panels are in use at a time, PANELS; and these functions.
 */

/*
 * Returns 1 if the last block of a panel is in work until the next panel's first
 * begins, which wants two panels; 0 if it is finished before.
 */
KERNEL_INLINE int overlaps(uint32_t type, const struct qwen_matmul *m);

/* Sets the shapes of the tiles. */
KERNEL_INLINE void configure(struct amx_config *c);

/* Unpacks a group of 16 rows of m. */
KERNEL_INLINE void unpack_panel(uint32_t type, const struct qwen_matmul *m,
    const unsigned char *const *row, struct panel *p);

/* Prefetches: of the next panel, and of the rows after this part. */
struct fetching {
	struct ahead near, far;
};

struct block {
	const struct panel *p;
	const struct pack *x;	/* NULL: there is no block */
	float	(*acc)[TILE];	/* where it is added, [row][token] */
};

/* The block that is in work, and its sums. */
struct work {
	struct sums s;
	struct block now;
};

/*
 * Finishes the block that is in work, if there is one, and meanwhile begins the
 * next; or only finishes it.  If plain is set, all factors of activations are
 * 1.  The type and plain are constants at each call.
 */
KERNEL_INLINE void next_block(uint32_t type, int plain, struct work *k,
    const struct block *next, struct fetching *ahead);
KERNEL_INLINE void finish(uint32_t type, int plain, struct work *k);

KERNEL_INLINE void
tile_shape(struct amx_config *c, int tile, size_t rows, size_t colsb)
{
	c->rows[tile] = (uint8_t)rows;
	c->colsb[tile] = (uint16_t)colsb;
}

/* Fetches a few lines; a burst would wait for places in the miss queue. */
KERNEL_INLINE void
fetch(struct fetching *f)
{
	fetch_ahead(&f->near);
	fetch_ahead(&f->far);
}

/*
 * Transposes the sums of 16 rows by 16 tokens, and stores those of n tokens to
 * y[t] + r.
 */
KERNEL_INLINE void
put_sums(float (*acc)[TILE], float *const *y, size_t r, size_t n)
{
	__m512i v[16];
	const unsigned char *row[16];
	size_t t, i;

	for (i = 0; i < 16; i++)
		row[i] = (const unsigned char *)acc[i];
	transpose(row, 0, v);
	transpose(row, 32, v + 8);
	UNROLL16
	for (t = 0; t < 16; t++)
		if (t < n)
			_mm512_storeu_si512(y[t] + r, v[t]);
}

/* A part of a product: rows r0 .. r1-1, and tiles of tokens from t0 on. */
struct part {
	const struct qwen_matmul *m;
	size_t	r0, r1, t0, tiles;
};

/* Returns prefetches of the panel after row r of group g. */
KERNEL_INLINE struct ahead
look_near(const struct part *part, size_t r, size_t g)
{
	const struct qwen_matmul *m = part->m;
	const unsigned char *w = m->w + r * m->row_bytes;
	struct ahead a = { .n_row = TILE, .row_bytes = m->row_bytes,
	    .bytes = group_bytes(m) };

	if (r < part->r1)
		w += g * a.bytes;
	else if (++g < m->n_in / QWEN_GROUP)
		w = m->w + part->r0 * m->row_bytes + g * a.bytes;
	else if (r == m->r1)
		w = m->next;
	a.row = (const char *)w;
	if (w == NULL)
		a.n_row = 0;
	spread_ahead(&a, part->tiles * STEPS);
	return a;
}

/* Returns prefetches, in memory order, of as many rows after the part. */
KERNEL_INLINE struct ahead
look_far(const struct part *part)
{
	const struct qwen_matmul *m = part->m;
	struct ahead a = { .far = 1,
	    .bytes = (part->r1 - part->r0) * m->row_bytes,
	    .row = (const char *)(part->r1 == m->r1 ? m->next :
	    m->w + part->r1 * m->row_bytes) };

	a.n_row = a.row != NULL && m->n_tok <= FAR_TOKENS;
	spread_ahead(&a, m->n_in / QWEN_GROUP * part->tiles *
	    ((part->r1 - part->r0) / TILE) * STEPS);
	return a;
}

/* Multiplies a panel by group g of all tokens of a part. */
KERNEL_INLINE void
multiply_panel(uint32_t type, int plain, const struct part *part, size_t g,
    struct block next, struct work *k, struct fetching *ahead)
{
	const size_t groups = part->m->n_in / QWEN_GROUP;
	size_t t;

	next.x = (const struct pack *)part->m->packed + part->t0 * groups + g;
	for (t = 0; t < part->tiles; t++) {
		next_block(type, plain, k, &next, ahead);
		k->now = next;
		next.x += groups;
		next.acc += TILE;
	}
	if (!overlaps(type, part->m)) {
		finish(type, plain, k);
		k->now.x = NULL;
	}
}

KERNEL_INLINE void
multiply_part(uint32_t type, int plain, const struct part *part)
{
	const struct qwen_matmul *m = part->m;
	const size_t row_tiles = (part->r1 - part->r0) / TILE;
	float acc[PART_ROWS / TILE][PART_TILES][TILE][TILE]
	    __attribute__((aligned(64)));
	struct panel panels[PANELS], *p;
	struct work k;
	struct fetching ahead = { .far = look_far(part) };
	const unsigned char *row[TILE];
	size_t g, i, j, r, t;

	k.now.x = NULL;
	for (i = 0; i < row_tiles; i++)
		memset(acc[i], 0, part->tiles * sizeof acc[i][0]);
	for (g = 0; g < m->n_in / QWEN_GROUP; g++) {
		for (i = 0; i < row_tiles; i++) {
			p = &panels[(g * row_tiles + i) % PANELS];
			r = part->r0 + TILE * i;
			for (j = 0; j < TILE; j++)
				row[j] = m->w + (r + j) * m->row_bytes +
				    g * group_bytes(m);
			unpack_panel(type, m, row, p);
			ahead.near = look_near(part, r + TILE, g);
			multiply_panel(type, plain, part, g, (struct block){
			    .p = p, .acc = acc[i][0] }, &k, &ahead);
		}
	}
	if (k.now.x != NULL)
		finish(type, plain, &k);
	for (t = 0; t < part->tiles; t++) {
		const size_t first = TILE * (part->t0 + t);

		for (i = 0; i < row_tiles; i++)
			put_sums(acc[i][t], m->y + first, part->r0 + TILE * i,
			    m->n_tok - first);
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
	struct part part = { .m = m };

	configure(&c);
	amx_config(&c);
	for (; part.t0 < tiles; part.t0 += part.tiles) {
		part.tiles = tiles - part.t0 < PART_TILES ? tiles - part.t0 :
		    PART_TILES;
		for (part.r0 = m->r0; part.r0 < m->r1; part.r0 = part.r1) {
			part.r1 = m->r1 - part.r0 < PART_ROWS ? m->r1 :
			    part.r0 + PART_ROWS;
			if (m->plain)
				multiply_part(type, 1, &part);
			else
				multiply_part(type, 0, &part);
		}
	}
	amx_release();
}

#endif
