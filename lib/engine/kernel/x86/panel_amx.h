/* SPDX-License-Identifier: ISC */
/*
 * panel_amx.h - many tokens with AMX: 32 rows unpacked into a panel, tokens
 * gathered into tiles of up to 16, products of tiles, and what becomes of the
 * sums left to the formats in gemm_amx.c.
 *
 * A tile of a panel is the second operand (k/4 rows of 16 weight rows' quads,
 * the very quads that VPDPBUSD takes), a tile of tokens the first (plain
 * rows), so a row of a result holds 16 weight rows' sums for one token.
 *
 * Sums may not run on over more than 32 columns, since each 32 have scales on
 * both sides, and the result must be that of numerics version 1.  Two ways:
 *
 * fold	A product half a tile deep for each 32, then a row of it (one token, 16
 *	weight rows) is multiplied with scale and sub-scale and added up in
 *	vector registers.
 * planes Scale times weight and sub-scale times activation are exact in 14 and
 *	11 bits, that is, two digits of 7 bits and a sign; products of digits
 *	are whole tiles deep and run on over a group of 256.
 *
 * Cycles for 16 rows, 16 tokens and 256 columns: the tile unit's (16 for a
 * product, whatever its depth), and the vector unit's, two instructions a
 * cycle, VPMULLD counted twice; for a token, in brackets, what is peculiar to
 * the way + what both need for minimums and the float step.
 *			fold				planes
 *	Q4_K	128, 248 (8 * 2 + 5 for the offset + 10)	192, 128 (6 + 10)
 *	Q5_K	128, 336 (8 * 4 + 10)			192, 128 (6 + 10)
 *	Q6_K	256, 536 (16 * 4 + 3)			192, 72 (6 + 3)
 *	Q8_0	128, 200 (8 * 3 + 1)			cannot be: a float step
 *						every 32 is in its definition
 * The units overlap, so the larger counts.  VPDPBUSD takes 512 and its fold.
 * Planes would save Q4_K and Q5_K 56 and 144 cycles, but three digit planes of
 * every weight must be made: without its tile instructions, a call for 256
 * rows of 2048 spends 26 us on unpacking to planes, 11 us without (Zen 5).
 * That pays from some 70 tokens on for Q5_K, more than an expert sees.  Only
 * Q6_K goes by planes.
 *
 * From how many tokens: a product of n tokens takes n cycles, so that few are
 * no waste in themselves; but each group of 32 rows costs the latency of a
 * product and of its store (some 100 cycles) and the loads of 16 weight tiles
 * (64 more), for which VPDPBUSD does two tokens.  8 leaves a margin for what
 * is not known, 16 for Q6_K pays its unpacking.
 *
 * Nothing of this was measured on a CPU with AMX.
 */
#include "engine/kernel/x86/amx.h"
#include "engine/kernel/x86/base.h"

#define SLICE 4			/* groups of 256 in a panel, at most */
#define PARTS 6			/* of a panel: planes of its groups */
#define TILES 12		/* of tokens that are kept gathered */
#define TILE_TOKENS 16

struct panel {
	/* group and plane, k/4, half, rows*4 */
	int8_t	w[PARTS][64][2][64];
	int32_t	scale[SLICE][16][32];	/* of each 16 or 32 weights */
	int32_t	min[SLICE][4][32];	/* pairs of int16 */
	float	d[SLICE][8][32];	/* of the group, or each 32 */
	float	dmin[SLICE][32];
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack512.h"

/*
 * Tokens of a slice.  Gathered once for all rows of a call: a copy for each
 * panel would cost a quarter of the time of its products.
 */
struct tokens {
	int8_t	q[TILES][PARTS][TILE_TOKENS][256];
	int32_t	a[TILES][SLICE][TILE_TOKENS][8];	/* sub-scales */
} __attribute__((aligned(64)));

/* What a call works on now. */
struct place {
	size_t	t, n_tok;	/* tokens from t on */
	size_t	rows;		/* tokens of a tile */
	size_t	g, ng;		/* groups of the slice */
	size_t	r;		/* first row of the panel */
};

/* What differs by format. */
struct amx_format {
	size_t	planes;		/* of each operand */
	size_t	slice;		/* groups in a panel: PARTS / planes at most */
	/* shapes of the eight tiles, for so many tokens in one */
	void	(*configure)(struct amx_config *c, size_t rows);
	/* one token's group into its row of a tile */
	void	(*pack_group)(const struct qwen_q8 *x, struct tokens *to,
		    size_t tile, size_t g, size_t row);
	/* the rows of a panel: unpack_panel() */
	void	(*unpack)(const struct qwen_matmul *m, struct panel *p,
		    const struct place *at);
	/* one tile of tokens with the groups of a panel: panel_tile() */
	void	(*tile)(const struct qwen_matmul *m, const struct panel *p,
		    const struct tokens *to, const struct place *at,
		    size_t tile, struct ahead *ahead);
};

/*
 * Add group g of one tile, n of its tokens, to acc[token][half]; x[token] is
 * that group's activations.  The type is a constant where it is called.
 */
PI void multiply(uint32_t type, const struct panel *p,
    const struct tokens *to, size_t tile, size_t g,
    const struct qwen_q8 *const *x, size_t n, __m512 (*acc)[2]);

/* A dword in all lanes. */
PI __m512i
broadcast(const void *p)
{
	return _mm512_set1_epi32(dword_at(p));
}

PI void
shape(struct amx_config *c, int tile, size_t rows, size_t colsb)
{
	c->rows[tile] = (uint8_t)rows;
	c->colsb[tile] = (uint16_t)colsb;
}

static void
pack(const struct qwen_matmul *m, const struct amx_format *f,
    struct tokens *to, const struct place *at)
{
	size_t i, g, tile = 0, row = 0;

	for (i = 0; i < at->n_tok; i++) {
		const struct qwen_q8 *x = m->x[at->t + i];

		for (g = 0; g < at->ng; g++)
			f->pack_group(x + at->g + g, to, tile, g, row);
		if (++row == at->rows) {
			row = 0;
			tile++;
		}
	}
	/* rows of the last tile that no token has: read, never used */
	for (; row > 0 && row < at->rows; row++)
		for (i = 0; i < at->ng * f->planes; i++)
			memset(to->q[tile][i][row], 0, 256);
}

/* n tokens from t: one tile of them over the groups of a panel. */
PI void
panel_tile(uint32_t type, const struct qwen_matmul *m,
    const struct panel *p, const struct tokens *to, const struct place *at,
    size_t tile, struct ahead *ahead)
{
	const struct qwen_q8 *x[TILE_TOKENS];
	__m512 acc[TILE_TOKENS][2];
	size_t t = tile * at->rows, n, i, g;

	n = at->n_tok - t < at->rows ? at->n_tok - t : at->rows;
	for (i = 0; i < n; i++) {
		const float *y = m->y[at->t + t + i] + at->r;

		x[i] = (const struct qwen_q8 *)m->x[at->t + t + i] + at->g;
		acc[i][0] = at->g == 0 ? _mm512_setzero_ps() :
		    _mm512_loadu_ps(y);
		acc[i][1] = at->g == 0 ? _mm512_setzero_ps() :
		    _mm512_loadu_ps(y + 16);
	}
	for (g = 0; g < at->ng; g++) {
		fetch_ahead(ahead);
		multiply(type, p, to, tile, g, x, n, acc);
		for (i = 0; i < n; i++)
			x[i]++;
	}
	for (i = 0; i < n; i++) {
		float *y = m->y[at->t + t + i] + at->r;

		_mm512_storeu_ps(y, acc[i][0]);
		_mm512_storeu_ps(y + 16, acc[i][1]);
	}
}

/* The panel that comes after this one; tiles: those of this one. */
static struct ahead
look_ahead(const struct qwen_matmul *m, const struct amx_format *f,
    const struct place *at, size_t tiles)
{
	size_t groups = m->n_in / QWEN_GROUP, g = at->g, n;
	const size_t bytes = group_bytes(m);
	struct ahead a = { .n_row = 32, .row_bytes = m->row_bytes };

	if (at->r + 32 < m->r1) {
		a.row = (const char *)(m->w + (at->r + 32) * m->row_bytes);
	} else if (g + at->ng < groups) {
		g += at->ng;
		a.row = (const char *)(m->w + m->r0 * m->row_bytes);
	} else {
		g = 0;
		a.row = (const char *)m->next;
	}
	if (a.row == NULL) {
		a.n_row = 0;
		return a;
	}
	n = groups - g < f->slice ? groups - g : f->slice;
	a.row += g * bytes;
	a.bytes = n * bytes;
	n = a.n_row * ((a.bytes + 63) / 64);
	a.per_step = (n + tiles * at->ng - 1) / (tiles * at->ng);
	return a;
}

PI void
unpack_panel(uint32_t type, const struct qwen_matmul *m, struct panel *p,
    const struct place *at)
{
	const size_t bytes = group_bytes(m);
	const unsigned char *row[16];
	size_t g, i;
	int half;

	for (g = 0; g < at->ng; g++) {
		for (half = 0; half < 2; half++) {
			for (i = 0; i < 16; i++)
				row[i] = m->w + (at->r + 16 * (size_t)half +
				    i) * m->row_bytes + (at->g + g) * bytes;
			unpack16(type, row, p, g, half);
		}
	}
}

/* One slice of K for all rows. */
static void
slice(const struct qwen_matmul *m, const struct amx_format *f,
    struct panel *p, struct tokens *x, struct place *at)
{
	size_t tiles = (at->n_tok + at->rows - 1) / at->rows, i;
	struct ahead ahead;

	pack(m, f, x, at);
	for (at->r = m->r0; at->r < m->r1; at->r += 32) {
		f->unpack(m, p, at);
		ahead = look_ahead(m, f, at, tiles);
		for (i = 0; i < tiles; i++)
			f->tile(m, p, x, at, i, &ahead);
	}
}

/*
 * Rows r0 .. r1-1 must be whole panels, n_in whole groups.
 *
 * Tiles are given back before returning: the thread may sleep next, and a core
 * whose tiles are in use saves 8 KiB more at a switch and cannot sleep deeply.
 * It is one instruction in a call that lasts microseconds at least.
 */
static void
gemm(const struct qwen_matmul *m, const struct amx_format *f)
{
	struct panel p;
	struct tokens x;
	struct place at = { 0 };
	struct amx_config c;
	size_t groups = m->n_in / QWEN_GROUP, tiles;

	for (; at.t < m->n_tok; at.t += at.n_tok) {
		at.n_tok = m->n_tok - at.t < TILES * TILE_TOKENS ?
		    m->n_tok - at.t : TILES * TILE_TOKENS;
		/* near-equal tiles: 17 tokens are 9 + 8, not 16 + 1 */
		tiles = (at.n_tok + TILE_TOKENS - 1) / TILE_TOKENS;
		at.rows = (at.n_tok + tiles - 1) / tiles;
		memset(&c, 0, sizeof c);
		c.palette = 1;
		f->configure(&c, at.rows);
		amx_config(&c);
		for (at.g = 0; at.g < groups; at.g += at.ng) {
			at.ng = groups - at.g < f->slice ? groups - at.g :
			    f->slice;
			slice(m, f, &p, &x, &at);
		}
	}
	amx_release();
}
