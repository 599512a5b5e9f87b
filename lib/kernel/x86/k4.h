/* SPDX-License-Identifier: ISC */
/* k4.h - the eight 6-bit scales and minimums of Q4_K and Q5_K as int16. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline __attribute__((always_inline)) void
scales_min_k4(const unsigned char *s, __m128i *scale, __m128i *min)
{
	uint32_t a, b, c, lo[2], mn[2];

	memcpy(&a, s, 4);
	memcpy(&b, s + 4, 4);
	memcpy(&c, s + 8, 4);
	lo[0] = a & 0x3f3f3f3f;
	lo[1] = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
	mn[0] = b & 0x3f3f3f3f;
	mn[1] = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
	*scale = _mm_cvtepu8_epi16(_mm_set_epi32(0, 0, (int)lo[1],
	    (int)lo[0]));
	*min = _mm_cvtepu8_epi16(_mm_set_epi32(0, 0, (int)mn[1],
	    (int)mn[0]));
}
