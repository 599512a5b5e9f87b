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
#include <immintrin.h>
#include <string.h>

#include "kernel/kernel.h"

#define PI static inline __attribute__((always_inline, unused))
#define SLICE 8			/* groups of 256 in a panel: K = 2048 */
#define MAX_TILE 6

struct panel {
	uint8_t	w[SLICE][8][8][2][64];	/* group, 32, quad, half, rows*4 */
	int32_t	scale[SLICE][16][32];	/* of each 16 or 32 weights */
	int32_t	min[SLICE][8][32];	/* pairs of int16 */
	float	d[SLICE][8][32];	/* of the group, or each 32 */
	float	dmin[SLICE][32];
} __attribute__((aligned(64)));

/*
 * Turn 16 rows of 32 bytes into 8 registers: register i holds dword i of all
 * rows, row r in lane r.
 */
PI void
turn8(const unsigned char *const *p, __m512i *o)
{
	const __m512i lo = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
	const __m512i hi = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
	__m512i r[8], a[8], b[4], c[4];
	int i;

#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		r[i] = _mm512_inserti64x4(_mm512_castsi256_si512(
		    _mm256_loadu_si256((const __m256i *)p[i])),
		    _mm256_loadu_si256((const __m256i *)p[i + 8]), 1);
#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		a[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
		a[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
	}
#pragma GCC unroll 2
	for (i = 0; i < 2; i++) {
		b[2 * i] = _mm512_unpacklo_epi64(a[i], a[2 + i]);
		b[2 * i + 1] = _mm512_unpackhi_epi64(a[i], a[2 + i]);
		c[2 * i] = _mm512_unpacklo_epi64(a[4 + i], a[6 + i]);
		c[2 * i + 1] = _mm512_unpackhi_epi64(a[4 + i], a[6 + i]);
	}
#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		o[i] = _mm512_permutex2var_epi64(b[i], lo, c[i]);
		o[i + 4] = _mm512_permutex2var_epi64(b[i], hi, c[i]);
	}
}

/* The same for 16 rows of 16 bytes and 4 registers. */
PI void
turn4(const unsigned char *const *p, __m512i *o)
{
	__m512i r[4], a, b, c, d;
	int i;

#pragma GCC unroll 4
	for (i = 0; i < 4; i++) {
		r[i] = _mm512_castsi128_si512(_mm_loadu_si128(
		    (const __m128i *)p[i]));
		r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128(
		    (const __m128i *)p[i + 4]), 1);
		r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128(
		    (const __m128i *)p[i + 8]), 2);
		r[i] = _mm512_inserti32x4(r[i], _mm_loadu_si128(
		    (const __m128i *)p[i + 12]), 3);
	}
	a = _mm512_unpacklo_epi32(r[0], r[1]);
	b = _mm512_unpackhi_epi32(r[0], r[1]);
	c = _mm512_unpacklo_epi32(r[2], r[3]);
	d = _mm512_unpackhi_epi32(r[2], r[3]);
	o[0] = _mm512_unpacklo_epi64(a, c);
	o[1] = _mm512_unpackhi_epi64(a, c);
	o[2] = _mm512_unpacklo_epi64(b, d);
	o[3] = _mm512_unpackhi_epi64(b, d);
}

/* The f16 in the lower halves of 16 dwords. */
PI __m512
low_f16(__m512i v)
{
	return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

/* The f16 at the same place in 16 rows. */
PI __m512
load_d16(const unsigned char *const *p, size_t at)
{
	uint16_t h[16];
	int i;

	for (i = 0; i < 16; i++)
		memcpy(&h[i], p[i] + at, 2);
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
}

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

/*
 * The bytes that the next panel will be made of: 32 segments, row_bytes apart.
 * They are asked for a few lines at a time while tiles compute, since the
 * turning reads of unpacking would wait for every one of them.
 */
struct ahead {
	const char	*row;		/* of the 32; NULL: nothing to fetch */
	size_t		 row_bytes;
	size_t		 bytes;		/* of a segment */
	size_t		 at, n_row;
	size_t		 per_group;	/* lines to ask for at each step */
};

PI void
fetch_ahead(struct ahead *a)
{
	size_t i;

	for (i = 0; i < a->per_group && a->n_row > 0; i++) {
		_mm_prefetch(a->row + a->at, _MM_HINT_T0);
		a->at += 64;
		if (a->at >= a->bytes) {
			a->at = 0;
			a->row += a->row_bytes;
			a->n_row--;
		}
	}
}

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

/* 16 rows of one group; p: their first bytes of it. */
PI void unpack16(const unsigned char *const *p, struct panel *to, size_t g,
    int half);

static void
unpack32(const struct qwen_matmul *m, struct panel *p, size_t r, size_t g0,
    size_t ng)
{
	const unsigned char *row[16];
	size_t g, i;
	int half;

	for (g = 0; g < ng; g++) {
		for (half = 0; half < 2; half++) {
			for (i = 0; i < 16; i++)
				row[i] = m->w + (r + 16 * (size_t)half + i) *
				    m->row_bytes + (g0 + g) * BLOCK_BYTES;
			unpack16(row, p, g, half);
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
