/* SPDX-License-Identifier: ISC */
/*
 * dot_k4_avx2.h - sums of a block of Q4_K or Q5_K, AVX2: for rowdot.h.  Weights
 * stand unpacked, one register for each 32.  AVX-VNNI has none of its own: with
 * VPDPWSSD one token is no faster, and more go to a panel soon.
 */
#include "kernel/kernel.h"
#include "kernel/x86/k4.h"

struct block {
	__m256i	w[8];
	__m128i	scale, min;
};

/* The int16 at place 2j of a vector, in all places. */
#define PICK(v, j) _mm256_shuffle_epi8(v, \
	_mm256_set1_epi16((short)((2 * (j) + 1) << 8 | 2 * (j))))

static inline __attribute__((always_inline)) __m256i
dot(const struct block *u, const struct qwen_q8 *x)
{
	__m256i sa = _mm256_broadcastsi128_si256(_mm_mullo_epi16(u->scale,
	    _mm_loadu_si128((const __m128i *)x->a)));
	__m256i sum = _mm256_setzero_si256();

#define STEP(j) do {							\
	__m256i q = _mm256_loadu_si256((const __m256i *)(x->q + 32 * (j))); \
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(			\
	    _mm256_maddubs_epi16(u->w[j], q), PICK(sa, j)));		\
} while (0)
	STEP(0); STEP(1); STEP(2); STEP(3);
	STEP(4); STEP(5); STEP(6); STEP(7);
#undef STEP
	return sum;
}

static inline __attribute__((always_inline)) __m128i
dot_min(const struct block *u, const struct qwen_q8 *x)
{
	return _mm_madd_epi16(u->min,
	    _mm_loadu_si128((const __m128i *)x->asum));
}
