/* SPDX-License-Identifier: ISC */
/*
 * matmul_q4_k_avx2.c - y = Wx, W in Q4_K, x in 8 bits, AVX2: VPMADDUBSW (at most
 * 3810, no saturation), then VPMADDWD with scale times sub-scale.
 */
#include "kernel/x86/k4.h"

#define BLOCK_BYTES 144
#define D_AT 0
#define DMIN_AT 2

#include "kernel/kernel.h"

struct block {
	__m256i	w[8];
	__m128i	scale, min;
};

static inline __attribute__((always_inline)) void
unpack(const unsigned char *p, struct block *u)
{
	__m256i m4 = _mm256_set1_epi8(15);
	int i;

	scales_min_k4(p + 4, &u->scale, &u->min);
	for (i = 0; i < 4; i++) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(p + 16 +
		    32 * i));

		u->w[2 * i] = _mm256_and_si256(v, m4);
		u->w[2 * i + 1] = _mm256_and_si256(_mm256_srli_epi16(v, 4),
		    m4);
	}
}

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

#include "kernel/x86/rowdot.h"

const struct qwen_kernel qwen_matmul_q4_k_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_Q4_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
