/* SPDX-License-Identifier: ISC */
/*
 * matmul_q5_k_avx512vnni.c - y = Wx, W in Q5_K, x in 8 bits, AVX-512 VNNI:
 * VPMADDUBSW (at most 7874, no saturation), then VPDPWSSD with scale times
 * sub-scale.
 */
#define BLOCK_BYTES 176
#define QS_AT 48
#include "engine/kernel/x86/rowdot_k4.h"

/* Bits lo and hi of the 32 bytes as a fifth bit of the halves of n. */
RI __m512i
fifth(__m512i n, __m512i bits, int lo, int hi)
{
	const __m512i which = _mm512_inserti64x4(_mm512_castsi256_si512(
	    _mm256_set1_epi8((char)(1 << lo))),
	    _mm256_set1_epi8((char)(1 << hi)), 1);

	return _mm512_mask_add_epi8(n, _mm512_test_epi8_mask(bits, which), n,
	    _mm512_set1_epi8(16));
}

RI void
high(const unsigned char *w, __m512i *n)
{
	__m512i bits = _mm512_broadcast_i64x4(_mm256_loadu_si256(
	    (const __m256i *)(w + 16)));

	n[0] = fifth(n[0], bits, 0, 2);
	n[1] = fifth(n[1], bits, 1, 3);
	n[2] = fifth(n[2], bits, 4, 6);
	n[3] = fifth(n[3], bits, 5, 7);
}

const struct qwen_kernel qwen_matmul_q5_k_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_Q5_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
