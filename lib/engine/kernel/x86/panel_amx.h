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
 * So it was reckoned.  Measured on a Sapphire Rapids it is 0.85 to 0.96 of the
 * speed of AVX-512: see qwen_kernels_usual().
 */
#include "engine/kernel/x86/amx_loop.h"

#define SLICE 4			/* groups of 256 in a panel, at most */
#define PARTS 6			/* of a panel: planes of its groups */
#define TILES 12		/* of tokens that are kept gathered */

struct panel {
	/* group and plane, k/4, half, rows*4 */
	int8_t	w[PARTS][64][2][64];
	int32_t	scale[SLICE][16][32];	/* of each 16 or 32 weights */
	int32_t	min[SLICE][8][32];	/* pairs of int16 */
	float	d[SLICE][16][32];	/* of the group, or each span */
	float	dmin[SLICE][32];
	float	m[SLICE][8][32];	/* of each 32 */
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack.h"

/*
 * Tokens of a slice.  Gathered once for all rows of a call: a copy for each
 * panel would cost a quarter of the time of its products.
 */
struct tokens {
	int8_t	q[TILES][PARTS][TILE_TOKENS][256];
	int32_t	a[TILES][SLICE][TILE_TOKENS][8];	/* sub-scales */
} __attribute__((aligned(64)));

/* Of each operand; a panel has PARTS in all. */
PI size_t
planes(uint32_t type)
{
	return type == QT_Q6_K ? 3 : 1;
}

PI size_t
slice_of(uint32_t type)
{
	return type == QT_Q6_K ? PARTS / 3 : SLICE;
}

/* Shapes of the eight tiles, for so many tokens in one. */
PI void configure(uint32_t type, struct amx_config *c, size_t rows);

/* One token's group into its row of a tile. */
PI void pack_group(uint32_t type, const struct qwen_q8 *x, struct tokens *to,
    size_t tile, size_t g, size_t row);

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
pack(uint32_t type, const struct qwen_matmul *m, struct tokens *to,
    const struct place *at)
{
	size_t i, g, tile = 0, row = 0;

	for (i = 0; i < at->n_tok; i++) {
		const struct qwen_q8 *x = m->x[at->t + i];

		for (g = 0; g < at->ng; g++)
			pack_group(type, x + at->g + g, to, tile, g, row);
		if (++row == at->rows) {
			row = 0;
			tile++;
		}
	}
	/* rows of the last tile that no token has: read, never used */
	for (; row > 0 && row < at->rows; row++)
		for (i = 0; i < at->ng * planes(type); i++)
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
	size_t t = tile * at->rows, n = tokens_of(at, tile), i, g;

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

/* One slice of K for all rows. */
PI void
slice(uint32_t type, const struct qwen_matmul *m, struct panel *p,
    struct tokens *x, struct place *at)
{
	struct ahead ahead;
	size_t i;

	pack(type, m, x, at);
	for (at->r = m->r0; at->r < m->r1; at->r += 32) {
		unpack_panel(type, m, p, at->r, at->g, at->ng);
		ahead = look_ahead(m, *at, slice_of(type),
		    at->tiles * at->ng);
		for (i = 0; i < at->tiles; i++)
			panel_tile(type, m, p, x, at, i, &ahead);
	}
}

/*
 * Rows r0 .. r1-1 must be whole panels, n_in whole groups.
 *
 * Tiles are given back before returning: the thread may sleep next, and a core
 * whose tiles are in use saves 8 KiB more at a switch and cannot sleep deeply.
 * It is one instruction in a call that lasts microseconds at least.
 */
PI void
product(uint32_t type, const struct qwen_matmul *m)
{
	struct panel p;
	struct tokens x;
	struct place at = { 0 };

	while (next_tokens(m, &at, TILES)) {
		struct amx_config c = { .palette = 1 };

		configure(type, &c, at.rows);
		amx_config(&c);
		while (next_slice(m, &at, slice_of(type)))
			slice(type, m, &p, &x, &at);
	}
	amx_release();
}

QWEN_FORMATS(QWEN_PRODUCT)
