/* SPDX-License-Identifier: ISC */
/* panel256_q8_0.h - panels of Q8_0 in 256-bit registers. */
#define BLOCK_BYTES (8 * 34)
#include "engine/kernel/x86/panel256.h"

#ifdef __AVXVNNI__
/*
 * VPDPBUSD wants one factor unsigned: weights are 128 too large in the panel,
 * and sums start at what comes off.
 */
#define FLIP 0x80

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
#define FLIP 0

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
		__m256i w0 = load8(w[q][0]), w1 = load8(w[q][1]);
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

#include "engine/kernel/x86/unpack256_q8_0.h"

PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    int many, __m256 (*acc)[2], struct ahead *ahead)
{
	__m256 part[MAX_TILE][2];
	int j, t, h;

	(void)many;
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
