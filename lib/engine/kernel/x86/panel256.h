/* SPDX-License-Identifier: ISC */
/*
 * panel256.h - many tokens in 256-bit registers: 16 rows unpacked into a panel
 * in cache, then tiles of 16 rows by a few tokens.  With AVX-VNNI VPDPBUSD
 * multiplies, else VPMADDUBSW, whose sums do not hold weights of 8 bits
 * (panel_pairs.h).
 *
 * The panel is that of gemm_avx512vnni.c with half as many rows: a quad is two
 * registers of 8 rows with four weights a lane.  A slice of it is small enough
 * for the first-level cache.
 */
#ifndef QWEN_KERNEL_PANEL256_H
#define QWEN_KERNEL_PANEL256_H

#include "engine/kernel/x86/decode.h"

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
	float	d[SLICE][16][16];	/* of the group, or each span */
	float	dmin[SLICE][16];
	float	m[SLICE][8][16];	/* of each 32 */
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack.h"
#include "engine/kernel/x86/panel_loop.h"

/*
 * Four products a lane are added up by VPDPBUSD to 32 bits; by VPMADDUBSW two
 * and two to pairs of 16, which must be widened before they overflow.  Where
 * pairs hold the sums of all weights under a scale, they stay pairs until they
 * are multiplied with it: that widens them in passing.
 */
#ifdef __AVXVNNI__
/* gcc would keep these in registers, and not those that come before. */
#ifndef __clang__
#define LET_GO(sum) __asm__("" : "+m"(sum))
#endif

PI int
in_pairs(uint32_t type, int n_quad)
{
	(void)type;
	(void)n_quad;
	return 0;
}

/* What sums that are not pairs still lack of a. */
PI int
rest_of(int16_t a)
{
	return a;
}

PI __m256i
add_pairs(__m256i sum, __m256i a, __m256i b)
{
	return _mm256_dpwssd_avx_epi32(sum, a, b);
}
#else
/* 16 bits hold the sums of so many quads, of a power of two. */
PI int
run_of(uint32_t type, int n_quad)
{
	while (n_quad > 1 &&
	    n_quad * 2 * 127 * qwen_traits[type].most > 32767)
		n_quad /= 2;
	return n_quad;
}

PI int
in_pairs(uint32_t type, int n_quad)
{
	return run_of(type, n_quad) == n_quad;
}

/* Widening has multiplied them with it. */
PI int
rest_of(int16_t a)
{
	(void)a;
	return 1;
}

PI __m256i
add_pairs(__m256i sum, __m256i a, __m256i b)
{
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
	IN_ORDER(sum);
	return sum;
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

/*
 * v[t][half] = sums of 16 rows over n_quad quads, in pairs if in_pairs(), else
 * times a[t] / rest_of(a[t]).
 */
#ifdef __AVXVNNI__
PI void
quads(uint32_t type, __m256i (*v)[2], const uint8_t (*w)[2][32],
    const int8_t *const *x, const int16_t *a, int n_quad, int n)
{
	int q, t;

	(void)type;
	(void)a;
	UNROLL
	for (t = 0; t < n; t++)
		v[t][0] = v[t][1] = _mm256_setzero_si256();
	UNROLL
	for (q = 0; q < n_quad; q++) {
		__m256i w0 = load_i(w[q][0]), w1 = load_i(w[q][1]);

		UNROLL
		for (t = 0; t < n; t++) {
			__m256i b = broadcast(x[t] + 4 * q);

			v[t][0] = _mm256_dpbusd_avx_epi32(v[t][0], w0, b);
			v[t][1] = _mm256_dpbusd_avx_epi32(v[t][1], w1, b);
		}
	}
}
#else
PI __m256i
add_products(int q, __m256i sum, __m256i w, __m256i x)
{
	__m256i v = _mm256_maddubs_epi16(w, x);

	if (q == 0)
		return v;
	sum = _mm256_add_epi16(sum, v);
	IN_ORDER(sum);
	return sum;
}

PI void
quads(uint32_t type, __m256i (*v)[2], const uint8_t (*w)[2][32],
    const int8_t *const *x, const int16_t *a, int n_quad, int n)
{
	const int run = run_of(type, n_quad);
	__m256i s[2];
	int q, t, i;

	if (run == n_quad) {
		UNROLL
		for (q = 0; q < n_quad; q++) {
			__m256i w0 = load_i(w[q][0]), w1 = load_i(w[q][1]);

			UNROLL
			for (t = 0; t < n; t++) {
				__m256i b = broadcast(x[t] + 4 * q);

				v[t][0] = add_products(q, v[t][0], w0, b);
				v[t][1] = add_products(q, v[t][1], w1, b);
			}
		}
		return;
	}
	UNROLL
	for (t = 0; t < n; t++)
		v[t][0] = v[t][1] = _mm256_setzero_si256();
	UNROLL
	for (q = 0; q < n_quad; q += run) {
		UNROLL
		for (t = 0; t < n; t++) {
			const __m256i by = _mm256_set1_epi16(a[t]);

			UNROLL
			for (i = 0; i < run; i++) {
				__m256i b = broadcast(x[t] + 4 * (q + i));

				s[0] = add_products(i, s[0], load_i(w[q + i][0]),
				    b);
				s[1] = add_products(i, s[1], load_i(w[q + i][1]),
				    b);
			}
			v[t][0] = add_pairs(v[t][0], s[0], by);
			v[t][1] = add_pairs(v[t][1], s[1], by);
		}
	}
}
#endif

/* v[t] = quads() from q on of 32-block j. */
PI void
run_sums(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int j, int q, int n_quad, int n,
    __m256i (*v)[2])
{
	const int8_t *act[MAX_TILE];
	int16_t a[MAX_TILE];
	int t;

	UNROLL
	for (t = 0; t < n; t++) {
		act[t] = x[t]->q + 32 * j + 4 * q;
		a[t] = x[t]->a[j];
	}
	quads(type, v, p->w[g][j] + q, act, a, n_quad, n);
}

/* a times the sums of which quads() has made v */
PI __m256i
times(int pairs, __m256i v, int16_t a)
{
	return pairs ? _mm256_madd_epi16(v, _mm256_set1_epi16(a)) :
	    _mm256_mullo_epi32(v, _mm256_set1_epi32(rest_of(a)));
}

/* The same times scale, which is in both halves of a lane, and sum added. */
PI __m256i
scaled(int pairs, __m256i sum, __m256i v, __m256i scale, int16_t a)
{
	if (pairs)
		return add_pairs(sum, v, _mm256_mullo_epi16(scale,
		    _mm256_set1_epi16(a)));
	scale = _mm256_madd_epi16(scale, _mm256_set1_epi32((uint16_t)
	    rest_of(a)));
	return _mm256_add_epi32(sum, _mm256_mullo_epi32(v, scale));
}

/* ---- 256 weights under one d */

/* A group's sums of scale * a * w * q. */
PI void
group_sums(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, __m256i (*sum)[2],
    struct ahead *ahead)
{
	const int n_quad = (int)qwen_traits[type].span / 4;
	const int pairs = in_pairs(type, n_quad);
	__m256i v[MAX_TILE][2];
	int j, q, t;

	UNROLL
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm256_setzero_si256();
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		UNROLL
		for (q = 0; q < 8; q += n_quad) {
			const int32_t *s = p->scale[g][j * (8 / n_quad) +
			    q / n_quad];

			run_sums(type, p, g, x, j, q, n_quad, n, v);
			UNROLL
			for (t = 0; t < n; t++) {
				sum[t][0] = scaled(pairs, sum[t][0], v[t][0],
				    load_i(s), x[t]->a[j]);
				sum[t][1] = scaled(pairs, sum[t][1], v[t][1],
				    load_i(s + 8), x[t]->a[j]);
				LET_GO(sum[t][0]);
				LET_GO(sum[t][1]);
			}
		}
	}
}

/* What sums are too large by, with a bias. */
PI __m256i
bias_sum(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *x, int half)
{
	const int32_t (*pairs)[16] = qwen_traits[type].span == 16 ?
	    p->min[g] : p->scale[g];
	__m256i sum = _mm256_setzero_si256();
	int j;

	UNROLL
	for (j = 0; j < 8; j++)
		sum = add_pairs(sum, load_i(pairs[j] + 8 * half),
		    broadcast(x->asum16 + 2 * j));
	return _mm256_mullo_epi32(sum,
	    _mm256_set1_epi32(qwen_traits[type].bias));
}

PI void
fold_super(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, __m256 (*acc)[2],
    struct ahead *ahead)
{
	__m256i sum[MAX_TILE][2];
	int t, h;

	group_sums(type, p, g, x, n, sum, ahead);
	UNROLL
	for (t = 0; t < n; t++) {
		UNROLL
		for (h = 0; h < 2; h++) {
			if (qwen_traits[type].bias != 0)
				sum[t][h] = _mm256_sub_epi32(sum[t][h],
				    bias_sum(type, p, g, x[t], h));
		}
		add_group(type, p, g, x + t, 1, sum + t, acc + t);
	}
}

/* ---- a d for fewer */

/* sum[t]: a times the sums of n_quad quads from q on of 32-block j. */
PI void
part_sums(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int j, int q, int n_quad, int n,
    __m256i (*sum)[2])
{
	const int pairs = in_pairs(type, n_quad);
	int t, h;

	run_sums(type, p, g, x, j, q, n_quad, n, sum);
	UNROLL
	for (t = 0; t < n; t++) {
		int off = qwen_traits[type].bias * (n_quad == 4 ?
		    x[t]->asum16[2 * j + q / 4] : x[t]->asum[j]);

		UNROLL
		for (h = 0; h < 2; h++)
			sum[t][h] = _mm256_sub_epi32(times(pairs, sum[t][h],
			    x[t]->a[j]), _mm256_set1_epi32(off));
	}
}

PI void
fold_block(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, __m256 (*acc)[2],
    struct ahead *ahead)
{
	const int span = (int)qwen_traits[type].span;
	const int n_quad = span < 32 ? span / 4 : 8;
	const int blocks = span > 32 ? span / 32 : 1;
	__m256i sum[MAX_TILE][2], run[MAX_TILE][2];
	__m256 part[MAX_TILE][2];
	int j, q, t, h;

	UNROLL
	for (t = 0; t < n; t++) {
		part[t][0] = part[t][1] = _mm256_setzero_ps();
		run[t][0] = run[t][1] = _mm256_setzero_si256();
	}
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		UNROLL
		for (q = 0; q < 8; q += n_quad) {
			const float *d = p->d[g][(8 * j + q) / (n_quad *
			    blocks)];

			part_sums(type, p, g, x, j, q, n_quad, n, sum);
			UNROLL
			for (t = 0; t < 2 * n; t++) {
				h = t % 2;
				if (j % blocks != 0)
					sum[t / 2][h] = _mm256_add_epi32(
					    sum[t / 2][h], run[t / 2][h]);
				run[t / 2][h] = sum[t / 2][h];
				if (j % blocks == blocks - 1)
					part[t / 2][h] = _mm256_fmadd_ps(
					    _mm256_load_ps(d + 8 * h),
					    _mm256_cvtepi32_ps(sum[t / 2][h]),
					    part[t / 2][h]);
			}
		}
	}
	add_parts(type, p, g, x, n, part, acc);
}

/* Into both halves of a lane; with a bias, those of 16s as pairs, too. */
PI void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m256i v)
{
	const size_t parts = 32 / qwen_traits[type].span;
	__m256i twice_v = _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16),
	    0xaa);
	int32_t (*to)[16] = p->scale[g] + parts * j + k;

	store_i(to[0] + 8 * half, twice_v);
	if (qwen_traits[type].bias != 0 && k == 1)
		store_i(p->min[g][j] + 8 * half, _mm256_blend_epi16(
		    load_i(to[-1] + 8 * half), twice_v, 0xaa));
}

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m256i v)
{
	if (qwen_traits[type].bias == 128)
		v ^= set8(0x80);
	store_i(p->w[g][j][quad][half], v);
}

PI void
fold(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, int many, __m256 (*acc)[2],
    struct ahead *ahead)
{
	(void)many;
	if (qwen_traits[type].by_block)
		fold_block(type, p, g, x, n, acc, ahead);
	else
		fold_super(type, p, g, x, n, acc, ahead);
}

#ifdef __AVXVNNI__
#define PANEL_SET QWEN_AVXVNNI
#else
#define PANEL_SET QWEN_AVX2
#endif
#define PANEL_KERNELS(FORMATS, n)					\
	FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = n, PANEL_SET) \
	{ 0 }

#endif
