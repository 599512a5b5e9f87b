/* SPDX-License-Identifier: ISC */
/*
 * matmul_any_avx2.c - y = Wx for quantised formats without a kernel of their
 * own, AVX2: weights unpacked once by the format's plain code, then multiplied
 * with every token.
 */
#include <math.h>

#include "engine/kernel/x86/rows4.h"

/* 16 pair sums of block b, magnitudes times signed activations. */
RI __m256i
pairs(const struct qwen_unpacked *u, const struct qwen_q8 *x, size_t b)
{
	__m256i w = _mm256_loadu_si256((const __m256i *)(u->w + 32 * b));
	__m256i q = _mm256_loadu_si256((const __m256i *)(x->q + 32 * b));

	return _mm256_maddubs_epi16(_mm256_abs_epi8(w),
	    _mm256_sign_epi8(q, w));
}

static float
dot_super(const struct qwen_unpacked *u, const struct qwen_q8 *x, int has_min,
    float acc)
{
	__m256i sum = _mm256_setzero_si256();
	size_t b;

	for (b = 0; b < 8; b++) {
		__m128i lo = _mm_set1_epi16((short)(u->scale[2 * b] *
		    x->a[b]));
		__m128i hi = _mm_set1_epi16((short)(u->scale[2 * b + 1] *
		    x->a[b]));

		sum = _mm256_add_epi32(sum, _mm256_madd_epi16(
		    pairs(u, x, b), _mm256_set_m128i(hi, lo)));
	}
	acc = fmaf(u->d * x->d, (float)sum8(sum), acc);
	if (has_min)
		acc = fmaf(-u->dmin * x->d, (float)sum8(_mm256_madd_epi16(
		    _mm256_loadu_si256((const __m256i *)u->min),
		    _mm256_loadu_si256((const __m256i *)x->asum16))), acc);
	return acc;
}

static float
dot_32(const struct qwen_unpacked *u, const struct qwen_q8 *x, size_t n_block,
    int has_min, float acc)
{
	float part = 0.0f, part_min = 0.0f;
	size_t b;

	for (b = 0; b < n_block; b++) {
		int32_t s = sum8(_mm256_madd_epi16(pairs(u, x, b),
		    _mm256_set1_epi16(x->a[b])));

		part = fmaf(u->d32[b], (float)s, part);
		part_min = fmaf(u->m32[b], (float)x->asum[b], part_min);
	}
	acc = fmaf(x->d, part, acc);
	if (has_min)
		acc = fmaf(x->d, part_min, acc);
	return acc;
}

#include "engine/kernel/matmul_any.inc"

const struct qwen_kernel qwen_matmul_any_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QWEN_ANY_TYPE, .name = "avx2",
	.rank = 10, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
