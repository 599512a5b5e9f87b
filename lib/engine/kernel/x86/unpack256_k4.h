/* SPDX-License-Identifier: ISC */
/* unpack256_k4.h - eight 6-bit scales and minimums of Q4_K and Q5_K. */
#include "engine/kernel/x86/unpack256.h"

/* A byte that stands alone in each lane, into both halves. */
PI __m256i
twice(__m256i v)
{
	return _mm256_or_si256(v, _mm256_slli_epi32(v, 16));
}

/* d, dmin, scales and minimums: the first 16 bytes of 8 rows' blocks. */
PI void
unpack_scales(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const __m256i m6 = _mm256_set1_epi32(0x3f3f3f3f);
	const __m256i m4 = _mm256_set1_epi32(0x0f0f0f0f);
	const __m256i m2 = _mm256_set1_epi32(0x30303030);
	const __m256i byte = _mm256_set1_epi32(255);
	__m256i h[4], s[2], n[2];
	int i, j;

	turn4(p, h);
	_mm256_store_ps(to->d[g][0] + 8 * half, low_f16(h[0]));
	_mm256_store_ps(to->dmin[g] + 8 * half,
	    low_f16(_mm256_srli_epi32(h[0], 16)));
	s[0] = _mm256_and_si256(h[1], m6);
	n[0] = _mm256_and_si256(h[2], m6);
	s[1] = _mm256_or_si256(_mm256_and_si256(h[3], m4),
	    _mm256_and_si256(_mm256_srli_epi32(h[1], 2), m2));
	n[1] = _mm256_or_si256(
	    _mm256_and_si256(_mm256_srli_epi32(h[3], 4), m4),
	    _mm256_and_si256(_mm256_srli_epi32(h[2], 2), m2));
	for (i = 0; i < 2; i++) {
		for (j = 0; j < 4; j++)
			store8(to->scale[g][4 * i + j] + 8 * half,
			    twice(_mm256_and_si256(_mm256_srli_epi32(s[i],
			    8 * j), byte)));
		/* bytes 0 and 1, then 2 and 3, as a pair of int16 */
		for (j = 0; j < 2; j++) {
			__m256i v = _mm256_srli_epi32(n[i], 16 * j);

			store8(to->min[g][2 * i + j] + 8 * half,
			    _mm256_or_si256(_mm256_and_si256(v, byte),
			    _mm256_and_si256(_mm256_slli_epi32(v, 8),
			    _mm256_set1_epi32(0xff0000))));
		}
	}
}
