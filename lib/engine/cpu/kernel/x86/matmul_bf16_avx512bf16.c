/* SPDX-License-Identifier: ISC */
/*
 * matmul_bf16_avx512bf16.c - products in bf16, AVX-512 BF16.
 *
 * VDPBF16PS adds the product of the upper halves of two dwords to a sum, then
 * that of the lower ones: so column k above column k + 2 are two steps of the
 * chain of even or of odd columns.  The four columns of a quad are the dwords
 * (0, 2) and (1, 3).  It takes subnormal numbers for zero, and makes none.
 */
#define COLUMNS 2
#include "engine/cpu/kernel/x86/matmul_bf16.h"

VEC_INLINE v16
multiply_add(v16 sum, v16 w, v16 x)
{
	return _mm512_dpbf16_ps(sum, (__m512bh)w, (__m512bh)x);
}

VEC_INLINE void
put_tokens(float *to, const uint16_t *x)
{
	const __m256i turn = _mm256_broadcastsi128_si256(_mm_setr_epi8(
	    4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));

	_mm256_storeu_si256((void *)to, _mm256_shuffle_epi8(
	    _mm256_loadu_si256((const void *)x), turn));
}

VEC_INLINE void
put_weight(struct panel_bf16 *p, size_t k, size_t r, uint16_t v)
{
	size_t unit = k / 4 * 2 + k % 2;

	memcpy((unsigned char *)&p->w[unit][r / 16][r % 16] +
	    (k % 4 < 2 ? sizeof v : 0), &v, sizeof v);
}

const struct qwen_kernel qwen_matmul_bf16_avx512bf16_kernels[] = {
	MATMUL_BF16_KERNELS(QWEN_AVX512BF16)
};
