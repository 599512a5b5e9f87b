/* SPDX-License-Identifier: ISC */
/*
 * panel256.h - many tokens in 256-bit registers: 16 rows unpacked into a panel
 * in cache, then tiles of 16 rows by a few tokens.  gemm_avx2.c, which
 * multiplies with VPMADDUBSW, and gemm_avxvnni.c, with VPDPBUSD, are this file
 * compiled twice; each takes PANEL_KERNELS(its set).
 *
 * The panel is that of gemm_avx512vnni.c with half as many rows: a quad is two
 * registers of 8 rows with four weights a lane.  A slice of it is small enough
 * for the first-level cache.
 */
#include "engine/kernel/x86/wide.h"

#define SLICE 4			/* groups of 256 in a panel: K = 1024 */
#ifdef __AVXVNNI__
#define MAX_TILE 6		/* tokens */
#else
#define MAX_TILE 4
#endif

struct panel {
	uint8_t	w[SLICE][8][8][2][32];	/* group, 32, quad, half, rows*4 */
	int32_t	scale[SLICE][16][16];	/* of each 16 or 32: int16, twice */
	int32_t	min[SLICE][8][16];	/* pairs of int16 */
	float	d[SLICE][8][16];	/* of the group, or each 32 */
	float	dmin[SLICE][16];
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack.h"
#include "engine/kernel/x86/panel_loop.h"

/*
 * The two instruction sets differ in what four products a lane are added to:
 * VPDPBUSD, to 32 bits; VPMADDUBSW, which adds two and two, to pairs of 16,
 * that must be widened before they overflow.
 */
#ifdef __AVXVNNI__
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

PI __m256i
broadcast(const void *p)
{
	return _mm256_set1_epi32(dword_at(p));
}

/* v[t][half] += sums of 16 rows over n_quad quads. */
PI void
quads(__m256i (*v)[2], const uint8_t (*w)[2][32], const int8_t *const *x,
    int n_quad, int n)
{
	int q, t;

	UNROLL
	for (q = 0; q < n_quad; q++) {
		__m256i w0 = load_i(w[q][0]), w1 = load_i(w[q][1]);

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
				    load_i(s), x[t]->a[j]);
				sum[t][1] = scaled(sum[t][1], v[t][1],
				    load_i(s + 8), x[t]->a[j]);
				LET_GO(sum[t][0]);
				LET_GO(sum[t][1]);
			}
		}
	}
}

/* ---- Q4_K and Q5_K; most: quads whose products add up in 16 bits */

PI void
fold_k4(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int most, int n, __m256 (*acc)[2], struct ahead *ahead)
{
	__m256i sum[MAX_TILE][2];

	group_sums(p, g, x, 8, most, n, sum, ahead);
	add_group(p, g, x, n, 1, sum, acc);
}

/* ---- Q6_K */

/* Weights are 0 .. 63 in the panel: 32 times scale times sum comes off. */
PI void
fold_q6_k(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, __m256 (*acc)[2], struct ahead *ahead)
{
	__m256i sum[MAX_TILE][2];
	int j, t, h;

	group_sums(p, g, x, 4, 2, n, sum, ahead);	/* 4 * 63 * 127 */
	UNROLL
	for (t = 0; t < n; t++) {
		UNROLL
		for (h = 0; h < 2; h++) {
			__m256i off = _mm256_setzero_si256();

			UNROLL
			for (j = 0; j < 8; j++)
				off = add_pairs(off,
				    load_i(p->min[g][j] + 8 * h),
				    broadcast(x[t]->asum16 + 2 * j));
			sum[t][h] = _mm256_sub_epi32(sum[t][h],
			    _mm256_slli_epi32(off, 5));
		}
		add_group(p, g, x + t, 1, 0, sum + t, acc + t);
	}
}

/* ---- Q8_0 */

#ifdef __AVXVNNI__
/*
 * VPDPBUSD wants one factor unsigned: weights are 128 too large in the panel,
 * and sums start at what comes off.
 */
#define Q8_0_FLIP 0x80

PI void
sums32(__m256i (*v)[2], const uint8_t (*w)[2][32],
    const struct qwen_q8 *const *x, int j, int n)
{
	const int8_t *act[MAX_TILE];
	int t;

	UNROLL
	for (t = 0; t < n; t++) {
		act[t] = x[t]->q + 32 * j;
		v[t][0] = v[t][1] = _mm256_set1_epi32(x[t]->off8[j]);
	}
	quads(v, w, act, 8, n);
}
#else
/*
 * VPMADDUBSW too: it gets the weight's magnitude, and the sign moves to the
 * activation; at most 2 * 128 * 127, so each is widened by itself.
 */
#define Q8_0_FLIP 0

PI void
sums32(__m256i (*v)[2], const uint8_t (*w)[2][32],
    const struct qwen_q8 *const *x, int j, int n)
{
	const __m256i one = _mm256_set1_epi16(1);
	int q, t;

	UNROLL
	for (t = 0; t < n; t++)
		v[t][0] = v[t][1] = _mm256_setzero_si256();
	UNROLL
	for (q = 0; q < 8; q++) {
		__m256i w0 = load_i(w[q][0]), w1 = load_i(w[q][1]);
		__m256i m0 = _mm256_abs_epi8(w0), m1 = _mm256_abs_epi8(w1);

		UNROLL
		for (t = 0; t < n; t++) {
			__m256i a = broadcast(x[t]->q + 32 * j + 4 * q);

			v[t][0] = add_pairs(v[t][0], one, _mm256_maddubs_epi16(
			    m0, _mm256_sign_epi8(a, w0)));
			v[t][1] = add_pairs(v[t][1], one, _mm256_maddubs_epi16(
			    m1, _mm256_sign_epi8(a, w1)));
		}
	}
}
#endif

PI void
fold_q8_0(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int n, __m256 (*acc)[2], struct ahead *ahead)
{
	__m256 part[MAX_TILE][2];
	int j, t, h;

	for (t = 0; t < n; t++)
		part[t][0] = part[t][1] = _mm256_setzero_ps();
	for (j = 0; j < 8; j++) {
		__m256i v[MAX_TILE][2];

		fetch_ahead(ahead);
		sums32(v, p->w[g][j], x, j, n);
		UNROLL
		for (t = 0; t < n; t++) {
			__m256i a = _mm256_set1_epi32(x[t]->a[j]);

			UNROLL
			for (h = 0; h < 2; h++)
				part[t][h] = _mm256_fmadd_ps(
				    _mm256_load_ps(p->d[g][j] + 8 * h),
				    _mm256_cvtepi32_ps(_mm256_mullo_epi32(
				    v[t][h], a)), part[t][h]);
		}
	}
	UNROLL
	for (t = 0; t < n; t++) {
		__m256 scale = _mm256_set1_ps(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++)
			acc[t][h] = _mm256_fmadd_ps(scale, part[t][h],
			    acc[t][h]);
	}
}

/* Into both halves of a lane; those of Q6_K also as pairs for the offset. */
PI void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m256i v)
{
	__m256i twice = _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa);
	int32_t (*to)[16] = p->scale[g] + (type == QT_Q6_K ? 2 * j + k : j);

	store_i(to[0] + 8 * half, twice);
	if (type == QT_Q6_K && k == 1)
		store_i(p->min[g][j] + 8 * half, _mm256_blend_epi16(
		    load_i(to[-1] + 8 * half), twice, 0xaa));
}

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m256i v)
{
	if (type == QT_Q8_0)
		v = _mm256_xor_si256(v, _mm256_set1_epi8((char)Q8_0_FLIP));
	store_i(p->w[g][j][quad][half], v);
}

PI void
fold(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, __m256 (*acc)[2],
    struct ahead *ahead)
{
	(void)many;
	switch (type) {
	case QT_Q4_K:			/* 16 * 15 * 127 = 30480 */
		fold_k4(p, g, x, 8, n, acc, ahead);
		break;
	case QT_Q5_K:			/* 8 * 31 * 127 = 31496 */
		fold_k4(p, g, x, 4, n, acc, ahead);
		break;
	case QT_Q6_K:
		fold_q6_k(p, g, x, n, acc, ahead);
		break;
	default:
		fold_q8_0(p, g, x, n, acc, ahead);
	}
}

#define PANEL_ENTRY(name, type, n, ...)					\
	QWEN_ENTRY(name, type, .op = QWEN_OP_GEMM, .min_tok = n, __VA_ARGS__)
#define PANEL_KERNELS(...)						\
	PANEL_ENTRY(q4_k, QT_Q4_K, 3, __VA_ARGS__)			\
	PANEL_ENTRY(q5_k, QT_Q5_K, 3, __VA_ARGS__)			\
	PANEL_ENTRY(q6_k, QT_Q6_K, 5, __VA_ARGS__)			\
	PANEL_ENTRY(q8_0, QT_Q8_0, 4, __VA_ARGS__)			\
	{ 0 }
