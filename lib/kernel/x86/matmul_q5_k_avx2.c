/* SPDX-License-Identifier: ISC */
/*
 * matmul_q5_k_avx2.c - y = Wx, W in Q5_K, x in 8 bits, AVX2: VPMADDUBSW (at most
 * 7874, no saturation), then VPMADDWD with scale times sub-scale.
 */
#include "kernel/x86/dot_k4_avx2.h"

#define BLOCK_BYTES 176
#define D_AT 0
#define DMIN_AT 2

static inline __attribute__((always_inline)) void
unpack(const unsigned char *p, struct block *u)
{
	__m256i m4 = _mm256_set1_epi8(15);
	__m256i m1 = _mm256_set1_epi8(1);
	__m256i h = _mm256_loadu_si256((const __m256i *)(p + 16));
	int i;

	scales_min_k4(p + 4, &u->scale, &u->min);
	for (i = 0; i < 4; i++) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(p + 48 +
		    32 * i));

		u->w[2 * i] = _mm256_and_si256(v, m4);
		u->w[2 * i + 1] = _mm256_and_si256(_mm256_srli_epi16(v, 4),
		    m4);
	}
	for (i = 0; i < 8; i++)
		u->w[i] = _mm256_or_si256(u->w[i], _mm256_slli_epi16(
		    _mm256_and_si256(_mm256_srli_epi16(h, i), m1), 4));
}

#include "kernel/x86/rowdot.h"

const struct qwen_kernel qwen_matmul_q5_k_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_Q5_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
