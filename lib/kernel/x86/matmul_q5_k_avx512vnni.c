/* SPDX-License-Identifier: ISC */
/*
 * matmul_q5_k_avx512vnni.c - y = Wx, W in Q5_K, x in 8 bits, AVX-512 VNNI:
 * VPMADDUBSW (at most 7874, no saturation), then VPDPWSSD with scale times
 * sub-scale.
 */
#include "kernel/x86/k4.h"

#define BLOCK_BYTES 176
#define D_AT 0
#define DMIN_AT 2

#include "kernel/kernel.h"

struct block {
	__m512i	w[4];		/* 64 weights each */
	__m128i	scale, min;
};

static inline __attribute__((always_inline)) void
unpack(const unsigned char *p, struct block *u)
{
	__m512i m4 = _mm512_set1_epi8(15);
	__m512i m1 = _mm512_set1_epi8(16);
	__m256i h = _mm256_loadu_si256((const __m256i *)(p + 16));
	int i;

	scales_min_k4(p + 4, &u->scale, &u->min);
	for (i = 0; i < 4; i++) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(p + 48 +
		    32 * i));

		u->w[i] = _mm512_and_si512(_mm512_inserti64x4(
		    _mm512_castsi256_si512(v), _mm256_srli_epi16(v, 4), 1),
		    m4);
	}
	/* bits 2i and 2i + 1 of h to bit 4 of the lower and upper half */
#define HIGH(i, down, up)						\
	u->w[i] = _mm512_or_si512(u->w[i], _mm512_and_si512(m1,		\
	    _mm512_inserti64x4(_mm512_castsi256_si512(down), up, 1)))
	HIGH(0, _mm256_slli_epi16(h, 4), _mm256_slli_epi16(h, 3));
	HIGH(1, _mm256_slli_epi16(h, 2), _mm256_slli_epi16(h, 1));
	HIGH(2, h, _mm256_srli_epi16(h, 1));
	HIGH(3, _mm256_srli_epi16(h, 2), _mm256_srli_epi16(h, 3));
#undef HIGH
}

/* int16 2i in the lower half, 2i + 1 in the upper, of the 32-blocks' eight. */
static inline __attribute__((always_inline)) __m512i
pick(__m512i v, int i)
{
	__m256i lo = _mm256_set1_epi16((short)((4 * i + 1) << 8 | 4 * i));
	__m256i hi = _mm256_set1_epi16((short)((4 * i + 3) << 8 |
	    (4 * i + 2)));

	return _mm512_shuffle_epi8(v,
	    _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1));
}

static inline __attribute__((always_inline)) __m256i
dot(const struct block *u, const struct qwen_q8 *x)
{
	__m512i sa = _mm512_broadcast_i32x4(_mm_mullo_epi16(u->scale,
	    _mm_loadu_si128((const __m128i *)x->a)));
	__m512i sum = _mm512_setzero_si512();

#define STEP(i)								\
	sum = _mm512_dpwssd_epi32(sum, _mm512_maddubs_epi16(u->w[i],	\
	    _mm512_loadu_si512(x->q + 64 * (i))), pick(sa, i))
	STEP(0);
	STEP(1);
	STEP(2);
	STEP(3);
#undef STEP
	return _mm256_add_epi32(_mm512_castsi512_si256(sum),
	    _mm512_extracti64x4_epi64(sum, 1));
}

static inline __attribute__((always_inline)) __m128i
dot_min(const struct block *u, const struct qwen_q8 *x)
{
	return _mm_madd_epi16(u->min,
	    _mm_loadu_si128((const __m128i *)x->asum));
}

#include "kernel/x86/rowdot.h"

const struct qwen_kernel qwen_matmul_q5_k_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_Q5_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
