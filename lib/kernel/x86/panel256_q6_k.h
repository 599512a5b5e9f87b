/* SPDX-License-Identifier: ISC */
/* panel256_q6_k.h - panels of Q6_K in 256-bit registers. */
#define BLOCK_BYTES 210
#define MOST 2			/* 4 * 63 * 127 = 32004 */
#include "kernel/x86/panel256.h"

/* Sixteen signed scales; also as pairs of int16 for the offset of 32. */
PI void
unpack_scales(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	__m256i v[4], s[2], t;
	int i, j, k;

	turn4_at(p, 192, v);
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 2; j++) {
			for (k = 0; k < 2; k++) {
				/* signed, in the upper half; then in both */
				t = _mm256_srai_epi16(_mm256_slli_epi32(v[i],
				    24 - 16 * j - 8 * k), 8);
				s[k] = _mm256_blend_epi16(
				    _mm256_srli_epi32(t, 16), t, 0xaa);
				store8(to->scale[g][4 * i + 2 * j + k] +
				    8 * half, s[k]);
			}
			store8(to->min[g][2 * i + j] + 8 * half,
			    _mm256_blend_epi16(s[0], s[1], 0xaa));
		}
	}
	_mm256_store_ps(to->d[g][0] + 8 * half, load_d8(p, 208));
}

PI void
unpack8(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m256i m4 = _mm256_set1_epi8(15), m2 = _mm256_set1_epi8(0x30);
	__m256i a[4], b[4], h[4];
	size_t k, l;
	int i;

	unpack_scales(p, to, g, half);
	for (k = 0; k < 2; k++) {
		for (l = 0; l < 2; l++) {
			turn4_at(p, 64 * k + 16 * l, a);
			turn4_at(p, 64 * k + 32 + 16 * l, b);
			turn4_at(p, 128 + 32 * k + 16 * l, h);
#define PUT(j, nibbles, high)						\
	store8(to->w[g][4 * k + (j)][4 * l + (size_t)i][half],		\
	    _mm256_or_si256(_mm256_and_si256(nibbles, m4),		\
	    _mm256_and_si256(high, m2)))
			UNROLL
			for (i = 0; i < 4; i++) {
				PUT(0, a[i], _mm256_slli_epi16(h[i], 4));
				PUT(1, b[i], _mm256_slli_epi16(h[i], 2));
				PUT(2, _mm256_srli_epi16(a[i], 4), h[i]);
				PUT(3, _mm256_srli_epi16(b[i], 4),
				    _mm256_srli_epi16(h[i], 2));
			}
#undef PUT
		}
	}
}

/* Weights are 0 .. 63 in the panel: 32 times scale times sum comes off. */
PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    __m256 (*acc)[2])
{
	__m256i sum[MAX_TILE][2];
	int j, t, h;

	group_sums(p, g, x, 4, MOST, n, sum);
	UNROLL
	for (t = 0; t < n; t++) {
		__m256 scale = _mm256_set1_ps(x[t]->d);

		UNROLL
		for (h = 0; h < 2; h++) {
			__m256i off = _mm256_setzero_si256();

			UNROLL
			for (j = 0; j < 8; j++)
				off = add_pairs(off,
				    load8(p->min[g][j] + 8 * h),
				    broadcast(x[t]->asum16 + 2 * j));
			off = _mm256_sub_epi32(sum[t][h],
			    _mm256_slli_epi32(off, 5));
			acc[t][h] = _mm256_fmadd_ps(_mm256_mul_ps(
			    _mm256_load_ps(p->d[g][0] + 8 * h), scale),
			    _mm256_cvtepi32_ps(off), acc[t][h]);
		}
	}
}
