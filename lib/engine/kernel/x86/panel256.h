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
 *	fold()		a group's tile: see panel_loop.h
 * and gets gemm().
 */
#include "engine/kernel/x86/unpack256.h"

#define SLICE 4			/* groups of 256 in a panel: K = 1024 */

struct panel {
	uint8_t	w[SLICE][8][8][2][32];	/* group, 32, quad, half, rows*4 */
	int32_t	scale[SLICE][16][16];	/* of each 16 or 32: int16, twice */
	int32_t	min[SLICE][8][16];	/* pairs of int16 */
	float	d[SLICE][8][16];	/* of the group, or each 32 */
	float	dmin[SLICE][16];
} __attribute__((aligned(64)));

PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m256i v)
{
	store8(p->w[g][j][quad][half], v);
}

/*
 * The two instruction sets differ in what four products a lane are added to:
 * VPDPBUSD, to 32 bits; VPMADDUBSW, which adds two and two, to pairs of 16,
 * that must be widened before they overflow.
 */
#ifdef __AVXVNNI__
#define MAX_TILE 6		/* tokens */

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
#define MAX_TILE 4

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
    int n_quad, int most, int n, __m256i (*sum)[2], struct ahead *ahead)
{
	const int run = run_of(n_quad, most);
	int j, q, t;

	UNROLL
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm256_setzero_si256();
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		UNROLL
		for (q = 0; q < 8; q += run) {
			const int32_t *s = p->scale[g][j * (8 / n_quad) +
			    q / n_quad];
			const int8_t *act[MAX_TILE];
			__m256i v[MAX_TILE][2];

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

#define VEC __m256
#define LANES 8
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define ZERO _mm256_setzero_ps
#define UNPACK unpack16
#include "engine/kernel/x86/panel_loop.h"
