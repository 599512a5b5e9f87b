/* SPDX-License-Identifier: ISC */
/*
 * matmul_q6_k_avx2.c - y = Wx, W in Q6_K, x in 8 bits, AVX2.
 *
 * Weights stay 0 .. 63; the 32 that each is too large comes off through the
 * sums of the activations.
 */
#include <immintrin.h>

#define BLOCK_BYTES 210
#define D_AT 208

#include "engine/kernel/kernel.h"

struct block {
	__m256i	w[8];
	__m256i	scale;		/* 16 int16 */
};

static inline __attribute__((always_inline)) void
unpack(const unsigned char *p, struct block *u)
{
	__m256i m4 = _mm256_set1_epi8(15), m2 = _mm256_set1_epi8(0x30);
	int i;

	u->scale = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)
	    (p + 192)));
	for (i = 0; i < 2; i++) {
		__m256i a = _mm256_loadu_si256((const __m256i *)(p + 64 * i));
		__m256i b = _mm256_loadu_si256((const __m256i *)(p + 64 * i +
		    32));
		__m256i h = _mm256_loadu_si256((const __m256i *)(p + 128 +
		    32 * i));
		__m256i *w = u->w + 4 * i;

		w[0] = _mm256_or_si256(_mm256_and_si256(a, m4),
		    _mm256_and_si256(_mm256_slli_epi16(h, 4), m2));
		w[1] = _mm256_or_si256(_mm256_and_si256(b, m4),
		    _mm256_and_si256(_mm256_slli_epi16(h, 2), m2));
		w[2] = _mm256_or_si256(_mm256_and_si256(
		    _mm256_srli_epi16(a, 4), m4), _mm256_and_si256(h, m2));
		w[3] = _mm256_or_si256(_mm256_and_si256(
		    _mm256_srli_epi16(b, 4), m4), _mm256_and_si256(
		    _mm256_srli_epi16(h, 2), m2));
	}
}

/* int16 2j in the lower half, 2j + 1 in the upper, of eight in each half. */
#define PICK(v, j) _mm256_shuffle_epi8(v, _mm256_set_m128i(		\
	_mm_set1_epi16((short)((4 * (j) + 3) << 8 | (4 * (j) + 2))),	\
	_mm_set1_epi16((short)((4 * (j) + 1) << 8 | 4 * (j)))))

static inline __attribute__((always_inline)) __m256i
dot(const struct block *u, const struct qwen_q8 *x)
{
	__m128i a = _mm_loadu_si128((const __m128i *)x->a);
	__m256i sa = _mm256_mullo_epi16(u->scale, _mm256_set_m128i(
	    _mm_unpackhi_epi16(a, a), _mm_unpacklo_epi16(a, a)));
	__m256i lo = _mm256_permute2x128_si256(sa, sa, 0x00);
	__m256i hi = _mm256_permute2x128_si256(sa, sa, 0x11);
	__m256i sum = _mm256_slli_epi32(_mm256_madd_epi16(u->scale,
	    _mm256_loadu_si256((const __m256i *)x->asum16)), 5);

	sum = _mm256_sub_epi32(_mm256_setzero_si256(), sum);
#define STEP(v, j, at) do {						\
	__m256i q = _mm256_loadu_si256((const __m256i *)(x->q + 32 * (at))); \
	sum = _mm256_add_epi32(sum, _mm256_madd_epi16(			\
	    _mm256_maddubs_epi16(u->w[at], q), PICK(v, j)));		\
} while (0)
	STEP(lo, 0, 0); STEP(lo, 1, 1); STEP(lo, 2, 2); STEP(lo, 3, 3);
	STEP(hi, 0, 4); STEP(hi, 1, 5); STEP(hi, 2, 6); STEP(hi, 3, 7);
#undef STEP
	return sum;
}

#include "engine/kernel/x86/rowdot.h"

const struct qwen_kernel qwen_matmul_q6_k_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_Q6_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
