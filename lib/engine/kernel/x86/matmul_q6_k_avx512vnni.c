/* SPDX-License-Identifier: ISC */
/*
 * matmul_q6_k_avx512vnni.c - y = Wx, W in Q6_K, x in 8 bits, AVX-512 VNNI.
 *
 * Weights stay 0 .. 63; the 32 that each is too large comes off through the
 * sums of the activations.
 */
#include <immintrin.h>

#define BLOCK_BYTES 210
#define D_AT 208

#include "engine/kernel/kernel.h"

struct block {
	__m512i	w[4];		/* 64 weights each */
	__m256i	scale;		/* 16 int16 */
};

static inline __attribute__((always_inline)) void
unpack(const unsigned char *p, struct block *u)
{
	__m512i m4 = _mm512_set1_epi8(15), m2 = _mm512_set1_epi8(0x30);
	int i;

	u->scale = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)
	    (p + 192)));
	for (i = 0; i < 2; i++) {
		__m512i a = _mm512_loadu_si512(p + 64 * i);
		__m256i h = _mm256_loadu_si256((const __m256i *)(p + 128 +
		    32 * i));
		__m512i h0 = _mm512_inserti64x4(_mm512_castsi256_si512(
		    _mm256_slli_epi16(h, 4)), _mm256_slli_epi16(h, 2), 1);
		__m512i h1 = _mm512_inserti64x4(_mm512_castsi256_si512(h),
		    _mm256_srli_epi16(h, 2), 1);

		u->w[2 * i] = _mm512_or_si512(_mm512_and_si512(a, m4),
		    _mm512_and_si512(h0, m2));
		u->w[2 * i + 1] = _mm512_or_si512(_mm512_and_si512(
		    _mm512_srli_epi16(a, 4), m4), _mm512_and_si512(h1, m2));
	}
}

/* Each of four int16 of v from place 4i on, eight times. */
static inline __attribute__((always_inline)) __m512i
pick(__m256i v, int i)
{
	const __m512i at = _mm512_set_epi64(0x0003000300030003LL,
	    0x0003000300030003LL, 0x0002000200020002LL,
	    0x0002000200020002LL, 0x0001000100010001LL,
	    0x0001000100010001LL, 0, 0);

	return _mm512_permutexvar_epi16(_mm512_add_epi16(at,
	    _mm512_set1_epi16((short)(4 * i))), _mm512_castsi256_si512(v));
}

static inline __attribute__((always_inline)) __m256i
dot(const struct block *u, const struct qwen_q8 *x)
{
	__m128i a = _mm_loadu_si128((const __m128i *)x->a);
	__m256i sa = _mm256_mullo_epi16(u->scale, _mm256_set_m128i(
	    _mm_unpackhi_epi16(a, a), _mm_unpacklo_epi16(a, a)));
	__m256i off = _mm256_slli_epi32(_mm256_madd_epi16(u->scale,
	    _mm256_loadu_si256((const __m256i *)x->asum16)), 5);
	__m512i sum = _mm512_setzero_si512();

#define STEP(i)								\
	sum = _mm512_dpwssd_epi32(sum, _mm512_maddubs_epi16(u->w[i],	\
	    _mm512_loadu_si512(x->q + 64 * (i))), pick(sa, i))
	STEP(0);
	STEP(1);
	STEP(2);
	STEP(3);
#undef STEP
	return _mm256_sub_epi32(_mm256_add_epi32(
	    _mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1)),
	    off);
}

#include "engine/kernel/x86/rowdot.h"

const struct qwen_kernel qwen_matmul_q6_k_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_Q6_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
