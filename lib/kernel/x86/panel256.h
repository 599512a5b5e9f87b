/* SPDX-License-Identifier: ISC */
/*
 * panel256.h - many tokens in 256-bit registers: 16 rows unpacked into a panel
 * in cache, then tiles of 16 rows by a few tokens.  Compiled for AVX2, it
 * multiplies with VPMADDUBSW; for AVX-VNNI, with VPDPBUSD.
 *
 * The panel is that of panel.h with half as many rows: a quad is two registers
 * of 8 rows with four weights a lane.  A slice of it is small enough for the
 * first-level cache.
 *
 * A file that includes this has defined
 *	BLOCK_BYTES	of 256 weights (eight blocks for Q8_0)
 *	unpack8()	8 rows of a group into half a panel
 *	fold()		a group's tile: see below
 * and gets gemm().
 */
#include <immintrin.h>
#include <string.h>

#include "kernel/kernel.h"

#define PI static inline __attribute__((always_inline, unused))

/* For loops that index arrays of registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* gcc would make a tree of a chain of sums, which takes more registers. */
#define IN_ORDER(sum) __asm__("" : "+x"(sum))

#define SLICE 4			/* groups of 256 in a panel: K = 1024 */

struct panel {
	uint8_t	w[SLICE][8][8][2][32];	/* group, 32, quad, half, rows*4 */
	int32_t	scale[SLICE][16][16];	/* of each 16 or 32: int16, twice */
	int32_t	min[SLICE][8][16];	/* pairs of int16 */
	float	d[SLICE][8][16];	/* of the group, or each 32 */
	float	dmin[SLICE][16];
} __attribute__((aligned(64)));

/*
 * The two instruction sets differ in what four products a lane are added to:
 * VPDPBUSD, to 32 bits; VPMADDUBSW, which adds two and two, to pairs of 16,
 * that must be widened before they overflow.
 */
#ifdef __AVXVNNI__
#define TILE 6			/* tokens */

/* gcc would keep these in registers, and not those that come before. */
#ifndef __clang__
#define LET_GO(sum) __asm__("" : "+m"(sum))
#endif

PI int
run_of(int n_quad, int most)
{
	(void)most;
	return n_quad;
}

PI __m256i
dot4(__m256i sum, __m256i w, __m256i x)
{
	return _mm256_dpbusd_avx_epi32(sum, w, x);
}

/* sum + v * scale * a, the scale in both halves of a lane. */
PI __m256i
scaled(__m256i sum, __m256i v, __m256i scale, int16_t a)
{
	scale = _mm256_madd_epi16(scale, _mm256_set1_epi32((uint16_t)a));
	return _mm256_add_epi32(sum, _mm256_mullo_epi32(v, scale));
}

PI __m256i
add_pairs(__m256i sum, __m256i a, __m256i b)
{
	return _mm256_dpwssd_avx_epi32(sum, a, b);
}
#else
#define TILE 4

PI int
run_of(int n_quad, int most)
{
	return n_quad < most ? n_quad : most;
}

PI __m256i
dot4(__m256i sum, __m256i w, __m256i x)
{
	sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
	IN_ORDER(sum);
	return sum;
}

PI __m256i
add_pairs(__m256i sum, __m256i a, __m256i b)
{
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
	IN_ORDER(sum);
	return sum;
}

PI __m256i
scaled(__m256i sum, __m256i v, __m256i scale, int16_t a)
{
	return add_pairs(sum, v, _mm256_mullo_epi16(scale,
	    _mm256_set1_epi16(a)));
}
#endif

#ifndef LET_GO
#define LET_GO(sum)
#endif

/*
 * Turn 8 rows of 16 bytes into 4 registers: register i holds dword i of all
 * rows, row r in lane r.
 */
PI void
turn4(const unsigned char *const *p, __m256i *o)
{
	__m256i r[4], a, b, c, d;
	int i;

UNROLL
	for (i = 0; i < 4; i++)
		r[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(
		    _mm_loadu_si128((const __m128i *)p[i])),
		    _mm_loadu_si128((const __m128i *)p[i + 4]), 1);
	a = _mm256_unpacklo_epi32(r[0], r[1]);
	b = _mm256_unpackhi_epi32(r[0], r[1]);
	c = _mm256_unpacklo_epi32(r[2], r[3]);
	d = _mm256_unpackhi_epi32(r[2], r[3]);
	o[0] = _mm256_unpacklo_epi64(a, c);
	o[1] = _mm256_unpackhi_epi64(a, c);
	o[2] = _mm256_unpacklo_epi64(b, d);
	o[3] = _mm256_unpackhi_epi64(b, d);
}

/* The same for 16 bytes at a place in the rows. */
PI void
turn4_at(const unsigned char *const *p, size_t at, __m256i *o)
{
	const unsigned char *q[8];
	int i;

UNROLL
	for (i = 0; i < 8; i++)
		q[i] = p[i] + at;
	turn4(q, o);
}

/* The f16 in the lower halves of 8 dwords. */
PI __m256
low_f16(__m256i v)
{
	v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
	return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(v),
	    _mm256_extracti128_si256(v, 1)));
}

/* The f16 at the same place in 8 rows. */
PI __m256
load_d8(const unsigned char *const *p, size_t at)
{
	uint16_t h[8];
	int i;

	for (i = 0; i < 8; i++)
		memcpy(&h[i], p[i] + at, 2);
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h));
}

PI __m256i
load8(const void *p)
{
	return _mm256_load_si256(p);
}

PI void
store8(void *p, __m256i v)
{
	_mm256_store_si256(p, v);
}

/* 4 bytes at p in all lanes. */
PI __m256i
broadcast(const void *p)
{
	int32_t x;

	memcpy(&x, p, 4);
	return _mm256_set1_epi32(x);
}

/* v[t][half] += sums of 16 rows over n_quad quads. */
PI void
quads(__m256i (*v)[2], const uint8_t (*w)[2][32], const int8_t *const *x,
    int n_quad, int n)
{
	int q, t;

UNROLL
	for (q = 0; q < n_quad; q++) {
		__m256i w0 = load8(w[q][0]), w1 = load8(w[q][1]);

UNROLL
		for (t = 0; t < n; t++) {
			__m256i a = broadcast(x[t] + 4 * q);

			v[t][0] = dot4(v[t][0], w0, a);
			v[t][1] = dot4(v[t][1], w1, a);
		}
	}
}

/*
 * A group's sums of scale * a * w * q, with a scale for each n_quad quads; 16
 * bits hold the sums of no more than most of them.
 */
PI void
group_sums(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n_quad, int most, int n, __m256i (*sum)[2])
{
	const int run = run_of(n_quad, most);
	int j, q, t;

UNROLL
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm256_setzero_si256();
	for (j = 0; j < 8; j++) {
UNROLL
		for (q = 0; q < 8; q += run) {
			const int32_t *s = p->scale[g][j * (8 / n_quad) +
			    q / n_quad];
			const int8_t *act[TILE];
			__m256i v[TILE][2];

UNROLL
			for (t = 0; t < n; t++) {
				act[t] = x[t]->q + 32 * j + 4 * q;
				v[t][0] = v[t][1] = _mm256_setzero_si256();
			}
			quads(v, p->w[g][j] + q, act, run, n);
UNROLL
			for (t = 0; t < n; t++) {
				sum[t][0] = scaled(sum[t][0], v[t][0],
				    load8(s), x[t]->a[j]);
				sum[t][1] = scaled(sum[t][1], v[t][1],
				    load8(s + 8), x[t]->a[j]);
				LET_GO(sum[t][0]);
				LET_GO(sum[t][1]);
			}
		}
	}
}

/*
 * fold(p, g, x, n, acc): add group g of n tokens, x[t] being that group's
 * activations, to acc[t][half].  n is a constant where it is called.
 */
PI void fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, __m256 (*acc)[2]);

/* The bytes that the next panel will be made of: see panel.h. */
struct ahead {
	const char	*row;		/* of the 16; NULL: nothing to fetch */
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

/* n tokens from t over ng groups from g0 of rows r .. r+15. */
PI void
panel_tile(const struct qwen_matmul *m, const struct panel *p, size_t r,
    size_t g0, size_t ng, size_t t, int n, struct ahead *ahead)
{
	const struct qwen_q8 *x[TILE];
	__m256 acc[TILE][2];
	size_t g;
	int i;

UNROLL
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		x[i] = (const struct qwen_q8 *)m->x[t + (size_t)i] + g0;
		acc[i][0] = g0 == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(y);
		acc[i][1] = g0 == 0 ? _mm256_setzero_ps() :
		    _mm256_loadu_ps(y + 8);
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

		_mm256_storeu_ps(y, acc[i][0]);
		_mm256_storeu_ps(y + 8, acc[i][1]);
	}
}

static void
panel_tokens(const struct qwen_matmul *m, const struct panel *p, size_t r,
    size_t g0, size_t ng, struct ahead *ahead)
{
	size_t t = 0, tiles = (m->n_tok + TILE - 1) / TILE, n;

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
#if TILE > 4
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

/* 8 rows of one group; p: their first bytes of it. */
PI void unpack8(const unsigned char *const *p, struct panel *to, size_t g,
    int half);

static void
unpack16(const struct qwen_matmul *m, struct panel *p, size_t r, size_t g0,
    size_t ng)
{
	const unsigned char *row[8];
	size_t g, i;
	int half;

	for (g = 0; g < ng; g++) {
		for (half = 0; half < 2; half++) {
			for (i = 0; i < 8; i++)
				row[i] = m->w + (r + 8 * (size_t)half + i) *
				    m->row_bytes + (g0 + g) * BLOCK_BYTES;
			unpack8(row, p, g, half);
		}
	}
}

/* What follows the slice that ends at group g of rows from r. */
static struct ahead
look_ahead(const struct qwen_matmul *m, size_t r, size_t g)
{
	size_t groups = m->n_in / QWEN_GROUP;
	const unsigned char *w = m->next;
	struct ahead a = { .n_row = 16, .row_bytes = m->row_bytes };

	if (g < groups)
		w = m->w + r * m->row_bytes + g * BLOCK_BYTES;
	else if (r + 16 < m->r1)
		w = m->w + (r + 16) * m->row_bytes;
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

	for (r = m->r0; r < m->r1; r += 16) {
		for (g = 0; g < groups; g += n) {
			n = groups - g < SLICE ? groups - g : SLICE;
			unpack16(m, &p, r, g, n);
			ahead = look_ahead(m, r, g + n);
			panel_tokens(m, &p, r, g, n, &ahead);
		}
	}
}
