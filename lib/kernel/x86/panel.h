/* SPDX-License-Identifier: ISC */
/*
 * panel.h - many tokens: 32 rows unpacked into a panel in cache, then tiles of
 * 32 rows by up to six tokens with VPDPBUSD.
 *
 * The panel holds, for every 32 weights of a row, eight quads; a quad is two
 * registers of 16 rows with four weights a lane, so one dword of a token,
 * broadcast once, is multiplied with 32 rows.  K is cut into slices, which
 * keeps the panel in L2; sums go on in y from one slice to the next, and the
 * order of float steps stays that of the scalar definition.
 *
 * A file that includes this has defined
 *	BLOCK_BYTES	of 256 weights (eight blocks for Q8_0)
 *	unpack16()	16 rows of a group into half a panel
 *	fold()		a group's tile: see below
 * and gets gemm().
 */
#include "kernel/x86/unpack.h"

#define SLICE 8			/* groups of 256 in a panel: K = 2048 */
#define MAX_TILE 6

struct panel {
	uint8_t	w[SLICE][8][8][2][64];	/* group, 32, quad, half, rows*4 */
	int32_t	scale[SLICE][16][32];	/* of each 16 or 32 weights */
	int32_t	min[SLICE][8][32];	/* pairs of int16 */
	float	d[SLICE][8][32];	/* of the group, or each 32 */
	float	dmin[SLICE][32];
} __attribute__((aligned(64)));

PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m512i v)
{
	_mm512_store_si512(p->w[g][j][quad][half], v);
}

/* 4 bytes at p in all lanes, kept in a register for both halves. */
PI __m512i
broadcast(const void *p)
{
	int32_t x;
	__m512i v;

	memcpy(&x, p, 4);
	v = _mm512_set1_epi32(x);
	__asm__("" : "+v"(v));
	return v;
}

/* x[t][0], x[t][1]: 32 rows' sums over quads q0 .. q1-1 of a 32-block. */
#define QUADS(x, panel_w, q0, q1, act, n) do {				\
	_Pragma("GCC unroll 8")						\
	for (int q_ = (q0); q_ < (q1); q_++) {				\
		__m512i w0_ = _mm512_load_si512((panel_w)[q_][0]);	\
		__m512i w1_ = _mm512_load_si512((panel_w)[q_][1]);	\
		_Pragma("GCC unroll 6")					\
		for (int t_ = 0; t_ < (n); t_++) {			\
			__m512i a_ = broadcast((act)[t_] + 4 * q_);	\
			x[t_][0] = _mm512_dpbusd_epi32(x[t_][0], w0_, a_); \
			x[t_][1] = _mm512_dpbusd_epi32(x[t_][1], w1_, a_); \
		}							\
	}								\
} while (0)

/*
 * fold(p, g, x, n, acc): add group g of n tokens, x[t] being that group's
 * activations, to acc[t][half].  n is a constant where it is called.
 */
PI void fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, __m512 (*acc)[2]);

/* n tokens from t over ng groups from g0 of rows r .. r+31. */
PI void
panel_tile(const struct qwen_matmul *m, const struct panel *p, size_t r,
    size_t g0, size_t ng, size_t t, int n, struct ahead *ahead)
{
	const struct qwen_q8 *x[MAX_TILE];
	__m512 acc[MAX_TILE][2];
	size_t g;
	int i;

#pragma GCC unroll 6
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		x[i] = (const struct qwen_q8 *)m->x[t + (size_t)i] + g0;
		acc[i][0] = g0 == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(y);
		acc[i][1] = g0 == 0 ? _mm512_setzero_ps() :
		    _mm512_loadu_ps(y + 16);
	}
	for (g = 0; g < ng; g++) {
		fetch_ahead(ahead);
		fold(p, g, x, n, acc);
#pragma GCC unroll 6
		for (i = 0; i < n; i++)
			x[i]++;
	}
#pragma GCC unroll 6
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		_mm512_storeu_ps(y, acc[i][0]);
		_mm512_storeu_ps(y + 16, acc[i][1]);
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
		case 6:
			panel_tile(m, p, r, g0, ng, t, 6, ahead);
			break;
		case 5:
			panel_tile(m, p, r, g0, ng, t, 5, ahead);
			break;
		case 4:
			panel_tile(m, p, r, g0, ng, t, 4, ahead);
			break;
		case 3:
			panel_tile(m, p, r, g0, ng, t, 3, ahead);
			break;
		case 2:
			panel_tile(m, p, r, g0, ng, t, 2, ahead);
			break;
		default:
			panel_tile(m, p, r, g0, ng, t, 1, ahead);
			break;
		}
	}
}

/* What follows the slice that ends at group g of rows from r. */
static struct ahead
look_ahead(const struct qwen_matmul *m, size_t r, size_t g)
{
	size_t groups = m->n_in / QWEN_GROUP;
	const unsigned char *w = m->next;
	struct ahead a = { .n_row = 32, .row_bytes = m->row_bytes };

	if (g < groups)
		w = m->w + r * m->row_bytes + g * BLOCK_BYTES;
	else if (r + 32 < m->r1)
		w = m->w + (r + 32) * m->row_bytes;
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

	for (r = m->r0; r < m->r1; r += 32) {
		for (g = 0; g < groups; g += n) {
			n = groups - g < SLICE ? groups - g : SLICE;
			unpack32(m, &p, r, g, n);
			ahead = look_ahead(m, r, g + n);
			panel_tokens(m, &p, r, g, n, &ahead);
		}
	}
}
