/* SPDX-License-Identifier: ISC */
/*
 * matmul_q8_0_avx2.c - y = Wx, W in Q8_0, x in 8 bits, AVX2: four rows
 * and up to four tokens at a time, a float step every 32 weights.
 */
#include "kernel/x86/rows4.h"

#define BLOCK_BYTES 34

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

/* nr rows from r (the last is repeated to make four), nt tokens from t. */
RI void
tile(const struct qwen_matmul *p, size_t r, size_t nr, size_t t, int nt)
{
	const unsigned char *w[4];
	const struct qwen_q8 *x[4];
	__m128 acc[4];
	size_t i, b, n = p->n_in / 32, nb;
	int j;

	four_rows(p, r, nr, w);
	for (j = 0; j < nt; j++) {
		x[j] = p->x[t + (size_t)j];
		acc[j] = _mm_setzero_ps();
	}
	for (b = 0; b < n; b += nb) {
		nb = n - b < 8 ? n - b : 8;
		for (i = 0; i < 4; i++)
			prefetch_next(p, w[i], nb * BLOCK_BYTES);
		group(w, x, b / 8, nb, nt, acc);
		for (i = 0; i < 4; i++)
			w[i] += nb * BLOCK_BYTES;
	}
	for (j = 0; j < nt; j++)
		store_rows(p, r, nr, t + (size_t)j, acc[j]);
}

#include "kernel/x86/rows4_loop.h"

const struct qwen_kernel qwen_matmul_q8_0_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_Q8_0, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
