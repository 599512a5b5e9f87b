/* SPDX-License-Identifier: ISC */
/*
 * panel256.h - many tokens in 256-bit registers with AVX-VNNI: 16 rows are
 * unpacked into a panel in the cache, then multiplied in tiles of 16 rows by a
 * few tokens.
 *
 * The panel is that of panel512.h with half as many rows: a quad is two
 * registers of 8 rows with four weights per lane.  A slice of it fits in the
 * first-level cache.
 */
#ifndef QWEN_KERNEL_PANEL256_H
#define QWEN_KERNEL_PANEL256_H

#include "engine/cpu/kernel/x86/decode.h"

#define SLICE 4			/* groups of 256 in a panel: K = 1024 */
#define MAX_TILE 6		/* tokens of a tile */

struct panel {
	uint8_t	w[SLICE][8][8][2][32];	/* group, 32, quad, half, rows*4 */
	int32_t	scale[SLICE][16][16];	/* per 16 or 32 weights: int16, twice */
	int32_t	min[SLICE][8][16];	/* pairs of int16 */
	float	d[SLICE][16][16];	/* of the group, or of each span */
	float	dmin[SLICE][16];
	float	m[SLICE][8][16];	/* of each 32 weights */
} __attribute__((aligned(64)));

#include "engine/cpu/kernel/x86/unpack.h"
#include "engine/cpu/kernel/x86/panel_loop.h"

/*
 * Moves a sum to memory: gcc would keep these sums in registers instead of
 * those used first.
 */
#ifndef __clang__
#define LET_GO(sum) __asm__("" : "+m"(sum))
#else
#define LET_GO(sum)
#endif

KERNEL_INLINE __m256i
add_pairs(__m256i sum, __m256i a, __m256i b)
{
	return _mm256_dpwssd_avx_epi32(sum, a, b);
}

KERNEL_INLINE __m256i
broadcast(const void *p)
{
	return _mm256_set1_epi32(dword_at(p));
}

/* Sets v[t][half] to the sums of 16 rows over n_quad quads. */
KERNEL_INLINE void
quads(__m256i (*v)[2], const uint8_t (*w)[2][32], const int8_t *const *x,
    int n_quad, int n)
{
	int q, t;

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

/* Sets v[t] to quads() from quad q on of 32-block j. */
KERNEL_INLINE void
run_sums(const struct panel *p, size_t g, const struct qwen_q8 *const *x,
    int j, int q, int n_quad, int n, __m256i (*v)[2])
{
	const int8_t *act[MAX_TILE];
	int t;

	UNROLL
	for (t = 0; t < n; t++)
		act[t] = x[t]->q + 32 * j + 4 * q;
	quads(v, p->w[g][j] + q, act, n_quad, n);
}

/* sum[half] += v[half] * scale * a; the scale is in both halves of a lane. */
KERNEL_INLINE void
add_scaled(__m256i *sum, const __m256i *v, const int32_t *scale, int16_t a)
{
	int h;

	UNROLL
	for (h = 0; h < 2; h++)
		sum[h] = _mm256_add_epi32(sum[h], _mm256_mullo_epi32(v[h],
		    _mm256_madd_epi16(load_i(scale + 8 * h),
		    _mm256_set1_epi32((uint16_t)a))));
}

/* sum[half] += v[half] * a, where v has premultiplied weights */
KERNEL_INLINE void
add_premultiplied(__m256i *sum, const __m256i *v, int16_t a)
{
	int h;

	UNROLL
	for (h = 0; h < 2; h++)
		sum[h] = _mm256_add_epi32(sum[h], _mm256_mullo_epi32(v[h],
		    _mm256_set1_epi32(a)));
}

/* ---- 256 weights per d */

/*
 * Computes a group's sums of scale * a * w * q; those of Q3_K have the opposite
 * sign.
 */
KERNEL_INLINE void
group_sums(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int n, __m256i (*sum)[2],
    struct ahead *ahead)
{
	const int n_quad = premultiplied(type) ? 8 :
	    (int)qwen_traits[type].span / 4;
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

			run_sums(p, g, x, j, q, n_quad, n, v);
			UNROLL
			for (t = 0; t < n; t++) {
				if (premultiplied(type))
					add_premultiplied(sum[t], v[t],
					    x[t]->a[j]);
				else
					add_scaled(sum[t], v[t], s, x[t]->a[j]);
				LET_GO(sum[t][0]);
				LET_GO(sum[t][1]);
			}
		}
	}
}

/* Returns the excess of sums of products, each with a bias of 128. */
KERNEL_INLINE __m256i
bias_of_products(const struct qwen_q8 *x)
{
	int j, sum = 0;

	for (j = 0; j < 8; j++)
		sum += x->asum[j];
	return _mm256_set1_epi32(128 * sum);
}

/* Returns the excess of sums due to the bias. */
KERNEL_INLINE __m256i
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

KERNEL_INLINE void
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
			if (type == QT_Q3_K)
				sum[t][h] = _mm256_sub_epi32(
				    bias_of_products(x[t]), sum[t][h]);
			else if (qwen_traits[type].bias != 0)
				sum[t][h] = _mm256_sub_epi32(sum[t][h],
				    bias_sum(type, p, g, x[t], h));
		}
		add_group(type, p, g, x + t, 1, sum + t, acc + t);
	}
}

/* ---- fewer weights per d */

/*
 * Sets sum[t] to a times the sums of n_quad quads from quad q on of 32-block j.
 */
KERNEL_INLINE void
part_sums(uint32_t type, const struct panel *p, size_t g,
    const struct qwen_q8 *const *x, int j, int q, int n_quad, int n,
    __m256i (*sum)[2])
{
	int t, h;

	run_sums(p, g, x, j, q, n_quad, n, sum);
	UNROLL
	for (t = 0; t < n; t++) {
		int off = qwen_traits[type].bias * (n_quad == 4 ?
		    x[t]->asum16[2 * j + q / 4] : x[t]->asum[j]);

		UNROLL
		for (h = 0; h < 2; h++)
			sum[t][h] = _mm256_sub_epi32(_mm256_mullo_epi32(
			    sum[t][h], _mm256_set1_epi32(x[t]->a[j])),
			    _mm256_set1_epi32(off));
	}
}

KERNEL_INLINE void
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

/*
 * Stores a scale in both halves of a lane; with a bias, scales of 16s also as
 * pairs.
 */
KERNEL_INLINE void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m256i v)
{
	const size_t parts = 32 / qwen_traits[type].span;
	__m256i twice_v = _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16),
	    0xaa);
	int32_t (*to)[16] = p->scale[g] + parts * j + k;

	store_i(to[0] + 8 * half, twice_v);
	if (qwen_traits[type].bias != 0 && !premultiplied(type) && k == 1)
		store_i(p->min[g][j] + 8 * half, _mm256_blend_epi16(
		    load_i(to[-1] + 8 * half), twice_v, 0xaa));
}

KERNEL_INLINE void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m256i v)
{
	if (premultiplied(type))
		v = premultiply(type, v, load_i(p->scale[g][2 * j +
		    (size_t)quad / 4] + 8 * half));
	if (type == QT_Q3_K || qwen_traits[type].bias == 128)
		v ^= set8(0x80);
	store_i(p->w[g][j][quad][half], v);
}

KERNEL_INLINE void
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

#define PANEL_KERNELS(FORMATS, n)					\
	FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = n,		\
	    QWEN_AVXVNNI)						\
	{ 0 }

#endif
