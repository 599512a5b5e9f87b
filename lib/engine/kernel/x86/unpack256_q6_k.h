/* SPDX-License-Identifier: ISC */
/* unpack256_q6_k.h - 8 rows of Q6_K into half a panel, through store_quad(). */
#include "engine/kernel/x86/unpack256.h"

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
	store_quad(to, g, 4 * k + (j), half, 4 * (int)l + i,		\
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
