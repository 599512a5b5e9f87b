/* SPDX-License-Identifier: ISC */
/*
 * rows4.h - what kernels that take four rows and up to four tokens at a time
 * share.  The including file gives tile(), and gets matmul() from rows4_loop.h.
 */
#ifndef QWEN_X86_ROWS4_H
#define QWEN_X86_ROWS4_H

#include <immintrin.h>
#include <string.h>

#include "engine/kernel/kernel.h"

#define RI static inline __attribute__((always_inline, unused))

/* f32 of the f16 at the same place in four rows. */
RI __m128
load_d4(const unsigned char *const *w, size_t at)
{
	uint16_t h[8] = { 0 };
	int i;

	for (i = 0; i < 4; i++)
		memcpy(&h[i], w[i] + at, 2);
	return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)h));
}

/*
 * The sums of four vectors, one a lane.  Not by VPHADDD, which is three or four
 * instructions in one on every processor.
 */
RI __m128i
sum8x4(const __m256i *v)
{
	__m256i a = _mm256_add_epi32(_mm256_unpacklo_epi32(v[0], v[1]),
	    _mm256_unpackhi_epi32(v[0], v[1]));
	__m256i b = _mm256_add_epi32(_mm256_unpacklo_epi32(v[2], v[3]),
	    _mm256_unpackhi_epi32(v[2], v[3]));

	a = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b),
	    _mm256_unpackhi_epi64(a, b));
	return _mm_add_epi32(_mm256_castsi256_si128(a),
	    _mm256_extracti128_si256(a, 1));
}

/* The sum of one. */
RI int32_t
sum8(__m256i v)
{
	__m128i s = _mm_add_epi32(_mm256_castsi256_si128(v),
	    _mm256_extracti128_si256(v, 1));

	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
	s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
	return _mm_cvtsi128_si32(s);
}

/* Rows r .. r+3; of the last nr the last is repeated to make four. */
RI void
four_rows(const struct qwen_matmul *p, size_t r, size_t nr,
    const unsigned char **w)
{
	size_t i;

	for (i = 0; i < 4; i++)
		w[i] = p->w + (r + (i < nr ? i : nr - 1)) * p->row_bytes;
}

/* How far ahead of the sums memory is asked for: so much fits the first cache. */
#define AHEAD 12288

/*
 * The rows whose bytes to ask for while the four from r are worked on: as many
 * tiles ahead as it takes; what comes after the last row if that is known, or
 * else what lies behind it.
 */
RI const unsigned char *
ahead_of(const struct qwen_matmul *p, size_t r)
{
	size_t tile = 4 * p->row_bytes, all = (p->r1 - p->r0) * p->row_bytes;
	size_t at = (r - p->r0) * p->row_bytes + (AHEAD + tile - 1) / tile *
	    tile;

	if (p->next != NULL && at >= all)
		return p->next + (at - all);
	return p->w + p->r0 * p->row_bytes + at;
}

/*
 * Ask for n bytes from p.  Rows are read four at a time, which no hardware
 * takes for a stream; asked for in their order in memory, they arrive as one.
 * A hint never faults.
 */
RI void
prefetch(const unsigned char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i += 64)
		_mm_prefetch((const char *)p + i, _MM_HINT_T0);
}

RI void
store_rows(const struct qwen_matmul *p, size_t r, size_t nr, size_t t,
    __m128 acc)
{
	float out[4];

	_mm_storeu_ps(out, acc);
	memcpy(p->y[t] + r, out, nr * sizeof *out);
}

#endif
