/* SPDX-License-Identifier: ISC */
/*
 * panel_pairs.h - many tokens in 256-bit registers without AVX-VNNI, for
 * weights of 8 bits: VPMADDWD multiplies pairs of int16.
 *
 * VPMADDUBSW would need one instruction to move the sign of an 8-bit weight to
 * the activation, and one to widen each sum of two products, both on the
 * multiplier ports.  So weights are widened when they are unpacked, times the
 * scale if that is an integer, and activations when they are packed, times
 * their factor, once for all panels.  Sums equal those of panel256.h, since
 * everything is exact: a scale times a weight is at most 4096, a factor times
 * an activation 889, so a sum of 256 products is below 2^30.
 */
#ifndef QWEN_KERNEL_PANEL_PAIRS_H
#define QWEN_KERNEL_PANEL_PAIRS_H

#include "engine/cpu/kernel/x86/decode.h"

#define SLICE 2			/* groups of 256 in a panel: K = 512 */
#define MAX_TILE 6		/* tokens of a tile */

struct panel {
	int16_t	w[SLICE][8][16][2][16];	/* group, 32, pair, half, rows*2 */
	int32_t	scale[SLICE][8][16];	/* int16, twice */
	int32_t	min[SLICE][8][16];	/* for unpack.h, as are dmin and m */
	float	d[SLICE][8][16];	/* of the group, or of each 32
					   weights */
	float	dmin[SLICE][16];
	float	m[SLICE][8][16];
} __attribute__((aligned(64)));

/*
 * A packed group of a token.  Of four columns the first and third are a pair,
 * and the second and fourth, as widening a dword produces them.
 */
struct pairs {
	int16_t	q[QWEN_GROUP];		/* a * q of struct qwen_q8 */
	int16_t	asum16[16], asum[8];
	float	d;
} __attribute__((aligned(64)));
#define TOKEN struct pairs

#include "engine/cpu/kernel/x86/unpack.h"
#include "engine/cpu/kernel/x86/panel_loop.h"

static void
pack(void *to, const void *const *from, size_t n, size_t groups)
{
	struct pairs *p = to;
	size_t t, g, i;

	for (t = 0; t < n; t++) {
		const struct qwen_q8 *x = from[t];

		for (g = 0; g < groups; g++, x++, p++) {
			for (i = 0; i < 16; i++) {
				__m256i v = _mm256_mullo_epi16(
				    _mm256_cvtepi8_epi16(load16(x->q + 16 * i)),
				    _mm256_set1_epi16(x->a[i / 2]));

				v = _mm256_shufflelo_epi16(v, 0xd8);
				store_i(p->q + 16 * i,
				    _mm256_shufflehi_epi16(v, 0xd8));
			}
			memcpy(p->asum16, x->asum16, sizeof p->asum16);
			memcpy(p->asum, x->asum, sizeof p->asum);
			p->d = x->d;
		}
	}
}

static const struct qwen_packing packing = {
	.kind = QWEN_PACK_PAIRS,
	.bytes = QWEN_PACK_TOKENS * sizeof(struct pairs), .pack = pack,
};

/* Adds the products of 32-block j to sum[t][half]. */
KERNEL_INLINE void
add_block(const struct panel *p, size_t g, const struct pairs *const *x,
    int j, int n, __m256i (*sum)[2])
{
	int k, t;

#pragma GCC unroll 16
	for (k = 0; k < 16; k++) {
		__m256i w0 = load_i(p->w[g][j][k][0]);
		__m256i w1 = load_i(p->w[g][j][k][1]);

		UNROLL
		for (t = 0; t < n; t++) {
			__m256i b = broadcast(x[t]->q + 32 * j + 2 * k);

			sum[t][0] = add_pairs(sum[t][0], w0, b);
			sum[t][1] = add_pairs(sum[t][1], w1, b);
		}
	}
}

KERNEL_INLINE void
clear(__m256i (*sum)[2], int n)
{
	int t;

	UNROLL
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm256_setzero_si256();
}

KERNEL_INLINE void
fold(uint32_t type, const struct panel *p, size_t g,
    const struct pairs *const *x, int n, int many, __m256 (*acc)[2],
    struct ahead *ahead)
{
	__m256i sum[MAX_TILE][2];
	__m256 part[MAX_TILE][2];
	int j, t, h;

	(void)many;
	if (!qwen_traits[type].by_block) {
		clear(sum, n);
		for (j = 0; j < 8; j++) {
			fetch_ahead(ahead);
			add_block(p, g, x, j, n, sum);
		}
		add_group(type, p, g, x, n, sum, acc);
		return;
	}
	UNROLL
	for (t = 0; t < n; t++)
		part[t][0] = part[t][1] = _mm256_setzero_ps();
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		clear(sum, n);
		add_block(p, g, x, j, n, sum);
		UNROLL
		for (t = 0; t < n; t++) {
			UNROLL
			for (h = 0; h < 2; h++)
				part[t][h] = _mm256_fmadd_ps(_mm256_load_ps(
				    p->d[g][j] + 8 * h),
				    _mm256_cvtepi32_ps(sum[t][h]), part[t][h]);
		}
	}
	add_parts(type, p, g, x, n, part, acc);
}

KERNEL_INLINE void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m256i v)
{
	(void)type;
	(void)k;
	store_i(p->scale[g][j] + 8 * half, _mm256_blend_epi16(v,
	    _mm256_slli_epi32(v, 16), 0xaa));
}

KERNEL_INLINE void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m256i v)
{
	__m256i even = _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
	__m256i odd = _mm256_srai_epi16(v, 8);

	if (!qwen_traits[type].by_block) {
		__m256i scale = load_i(p->scale[g][j] + 8 * half);

		even = _mm256_mullo_epi16(even, scale);
		odd = _mm256_mullo_epi16(odd, scale);
	}
	store_i(p->w[g][j][2 * quad][half], even);
	store_i(p->w[g][j][2 * quad + 1][half], odd);
}

#endif
