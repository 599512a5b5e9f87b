/* SPDX-License-Identifier: ISC */
/*
 * gemm_bf16_amx.c - many tokens in bf16, AMX: 32 rows in a panel, up to 16 tokens
 * at a time, the two tiles of their sums.  No more than four tiles are in use: the
 * processor has few to rename them to, and with all eight, which take half as many
 * loads, 64 tokens took 1.2 times as long.
 *
 * TDPBF16PS adds as generic/matmul_bf16_scalar.c says, or rather the other way
 * round, so that sums stay in their tiles for all columns of a slice.  From how
 * many tokens, which was reckoned and not measured: unpacking is the larger part
 * up to some ten of them, so it is as soon as the products take less than fused
 * multiply-adds, which a few tokens do.
 */
#include <string.h>

#include "base/half.h"
#include "engine/cpu/kernel/x86/amx_loop.h"
#include "engine/cpu/kernel/x86/floats16.h"

#define SLICE 4			/* groups of 256 in a panel */
#define TILES 6			/* of tokens that are kept gathered */
#define STEPS 8			/* products in a group, 32 columns each */

struct panel_bf16 {
	/* k/2, half, rows*2 */
	uint32_t w[SLICE * 128][2][16];
} __attribute__((aligned(64)));

struct tokens {
	uint16_t x[TILES][TILE_TOKENS][SLICE * QWEN_GROUP];
	float	sum[2][TILE_TOKENS][16];	/* half */
} __attribute__((aligned(64)));

/* Makes a panel of what the place says. */
typedef void fill_fn(const struct qwen_matmul *m,
    const struct amx_tile_place *at, struct panel_bf16 *p);

KERNEL_INLINE void
store_pairs(void *to, size_t k, int half, __m512i a, __m512i b)
{
	uint32_t (*p)[2][16] = (uint32_t (*)[2][16])to + k / 2;

	_mm512_store_si512(p[0][half], a);
	_mm512_store_si512(p[1][half], b);
}

/* Rows of the last tile that no token has are read, but never used. */
static void
gather(const struct qwen_matmul *m, struct tokens *to,
    const struct amx_tile_place *at)
{
	size_t i, bytes = at->ng * QWEN_GROUP * sizeof(uint16_t);

	for (i = 0; i < at->tiles * at->rows; i++) {
		uint16_t *x = to->x[i / at->rows][i % at->rows];

		if (i < at->n_tok)
			memcpy(x, (const uint16_t *)m->x[at->t + i] +
			    at->g * QWEN_GROUP, bytes);
		else
			memset(x, 0, bytes);
	}
}

/* The sums of a tile of tokens as they are in y, from y or back to it. */
static void
move_sums(const struct qwen_matmul *m, struct tokens *x,
    const struct amx_tile_place *at, size_t tile, int back)
{
	size_t t, h;

	for (t = 0; t < tokens_of(at, tile); t++) {
		float *y = m->y[at->t + tile * at->rows + t] + at->r;

		for (h = 0; h < 2; h++) {
			if (back)
				memcpy(y + 16 * h, x->sum[h][t], 64);
			else
				memcpy(x->sum[h][t], y + 16 * h, 64);
		}
	}
}

/*
 * A tile of tokens, over the columns of a panel: sums in 0 and 1, tokens in 2,
 * weights in 3.  Sums begin from zero or where the slice before left them.
 */
static void
panel_tile(const struct panel_bf16 *p, struct tokens *x,
    const struct amx_tile_place *at, size_t tile, struct ahead *ahead)
{
	const size_t stride = sizeof x->x[0][0];
	size_t i;

	if (at->g == 0) {
		amx_zero(0);
		amx_zero(1);
	} else {
		amx_load(0, x->sum[0], 64);
		amx_load(1, x->sum[1], 64);
	}
	for (i = 0; i < at->ng * STEPS; i++) {
		fetch_ahead(ahead);
		amx_load(2, x->x[tile][0] + 32 * i, stride);
		amx_load(3, p->w[16 * i][0], 128);
		amx_dpbf16(0, 2, 3);
		amx_load(3, p->w[16 * i][1], 128);
		amx_dpbf16(1, 2, 3);
	}
	amx_store(0, x->sum[0], 64);
	amx_store(1, x->sum[1], 64);
}

/* One slice of K for all rows. */
static void
slice(const struct qwen_matmul *m, fill_fn *fill, struct panel_bf16 *p,
    struct tokens *x, struct amx_tile_place *at)
{
	struct ahead ahead;
	size_t i;

	gather(m, x, at);
	for (at->r = m->r0; at->r < m->r1; at->r += 32) {
		fill(m, at, p);
		ahead = look_ahead(m, *at, SLICE,
		    at->tiles * at->ng * STEPS);
		for (i = 0; i < at->tiles; i++) {
			if (at->g > 0)
				move_sums(m, x, at, i, 0);
			panel_tile(p, x, at, i, &ahead);
			move_sums(m, x, at, i, 1);
		}
	}
}

/* Tokens and sums have `rows' rows, weights all 16. */
static void
configure(size_t rows)
{
	struct amx_config c = { .palette = 1 };
	int i;

	for (i = 0; i < 4; i++)
		tile_shape(&c, i, i < 3 ? rows : 16, 64);
	amx_config(&c);
}

/* Rows r0 .. r1-1 must be whole panels, n_in whole groups. */
static void
gemm_bf16(const struct qwen_matmul *m, fill_fn *fill)
{
	struct panel_bf16 p;
	struct tokens x;
	struct amx_tile_place at = { 0 };

	memset(x.sum, 0, sizeof x.sum);
	while (next_tokens(m, &at, TILES)) {
		configure(at.rows);
		while (next_slice(m, &at, SLICE))
			slice(m, fill, &p, &x, &at);
	}
	amx_release();
}

KERNEL_INLINE void
fill_format(uint32_t type, const struct qwen_matmul *m,
    const struct amx_tile_place *at, struct panel_bf16 *to)
{
	const size_t bytes = group_bytes(m);
	const unsigned char *row[LANES];
	struct ahead none = { 0 };	/* tiles have it */
	size_t g;
	int half, i;

	for (g = 0; g < at->ng; g++) {
		for (half = 0; half < 2; half++) {
			for (i = 0; i < LANES; i++)
				row[i] = m->w + (at->r + (size_t)(LANES * half +
				    i)) * m->row_bytes + (at->g + g) * bytes;
			unpack_floats(type, row, to->w + 128 * g, half,
			    &none);
		}
	}
}

/* A format: its panels, and the product. */
#define FORMAT(name, type, ...)						\
static void								\
fill_##name(const struct qwen_matmul *m,				\
    const struct amx_tile_place *at, struct panel_bf16 *to)		\
{									\
	fill_format(type, m, at, to);					\
}									\
static void								\
product_##name(const struct qwen_matmul *m)				\
{									\
	gemm_bf16(m, fill_##name);					\
}

QWEN_16_BIT_FLOATS(FORMAT)

#define ENTRY(name, type, ...)						\
	QWEN_ENTRY(name, type, .op = QWEN_OP_GEMM_BF16, AMX_SET,		\
	    .min_tok = AMX_MIN_TOK(4))

const struct qwen_kernel AMX_KERNELS(gemm_bf16_amx)[] = {
	QWEN_16_BIT_FLOATS(ENTRY)
	{ 0 }
};
