/* SPDX-License-Identifier: ISC */
/*
 * matmul_q8_0_avx2.c - y = Wx, W in Q8_0, x in 8 bits, AVX2: four rows
 * and up to four tokens at a time, a float step every 32 weights.
 */
#define BLOCK_BYTES 34
#include "engine/kernel/x86/rowdot_32.h"

/*
 * nb blocks of a group.  VPMADDUBSW wants one factor unsigned: the weight's
 * magnitude, its sign moved to the activation; at most 2 * 128 * 127.
 */
RI void
group(const unsigned char *const *w, const struct qwen_q8 *const *x, size_t g,
    size_t nb, int nt, __m128 *acc)
{
	__m128 part[4];
	__m256i v[4][4];
	size_t b, i;
	int j;

	for (j = 0; j < nt; j++)
		part[j] = _mm_setzero_ps();
	for (b = 0; b < nb; b++) {
		__m128 d = load_d4(w, b * BLOCK_BYTES);

		for (i = 0; i < 4; i++) {
			__m256i q = _mm256_loadu_si256((const __m256i *)
			    (w[i] + b * BLOCK_BYTES + 2));
			__m256i abs = _mm256_abs_epi8(q);

			for (j = 0; j < nt; j++)
				v[j][i] = _mm256_madd_epi16(
				    _mm256_maddubs_epi16(abs,
				    _mm256_sign_epi8(_mm256_loadu_si256(
				    (const __m256i *)(x[j][g].q + 32 * b)),
				    q)), _mm256_set1_epi16(x[j][g].a[b]));
		}
		for (j = 0; j < nt; j++)
			part[j] = _mm_fmadd_ps(d,
			    _mm_cvtepi32_ps(sum8x4(v[j])), part[j]);
	}
	for (j = 0; j < nt; j++)
		acc[j] = _mm_fmadd_ps(_mm_set1_ps(x[j][g].d), part[j],
		    acc[j]);
}

const struct qwen_kernel qwen_matmul_q8_0_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_Q8_0, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
