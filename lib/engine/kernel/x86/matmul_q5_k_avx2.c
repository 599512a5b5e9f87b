/* SPDX-License-Identifier: ISC */
/*
 * matmul_q5_k_avx2.c - y = Wx, W in Q5_K, x in 8 bits, AVX2: VPMADDUBSW (at most
 * 7874), four of these added up in 16 bits, then VPMADDWD with scale times
 * sub-scale.
 */
#define BLOCK_BYTES 176
#define QS_AT 48
#include "engine/kernel/x86/rowdot_k4_avx2.h"

/* Bit 4c + j of every byte as its bit 4. */
RI __m256i
fifth(__m256i bits, int c, int j)
{
	bits = c == 0 ? _mm256_slli_epi16(bits, 4 - j) :
	    _mm256_srli_epi16(bits, j);
	return _mm256_and_si256(bits, _mm256_set1_epi8(16));
}

RI void
high(const unsigned char *w, int c, int s, __m256i *n)
{
	/* bits 4c, 4c + 1: sub-blocks 0, 1 of a half; the next two: 2, 3 */
	__m256i bits = _mm256_loadu_si256((const __m256i *)(w + 16));
	__m256i next = _mm256_srli_epi16(bits, 2);

	n[0] = _mm256_or_si256(n[0],
	    fifth(_mm256_unpacklo_epi16(bits, next), c, s));
	n[1] = _mm256_or_si256(n[1],
	    fifth(_mm256_unpackhi_epi16(bits, next), c, s));
}

const struct qwen_kernel qwen_matmul_q5_k_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_Q5_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
