/* SPDX-License-Identifier: ISC */
/* gemm_q8_0_amx.c - y = Wx for many tokens, W in Q8_0, AMX. */
#define BLOCK_BYTES (8 * 34)
#define SCALES 1
#include "engine/kernel/x86/panel_amx_fold.h"
#include "engine/kernel/x86/unpack_q8_0.h"

/* Weights come as VPDPBUSD wants them, 128 too large. */
PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m512i v)
{
	_mm512_store_si512(p->w[g][0][8 * j + (size_t)quad][half],
	    _mm512_xor_si512(v, _mm512_set1_epi8((char)0x80)));
}

/* As float: a_j times a sum of 32 is below 2^24, so nothing is rounded. */
PI __m256i
pack_scales(__m256i a)
{
	return _mm256_castps_si256(_mm256_cvtepi32_ps(a));
}

PI void
fold(const struct panel *p, size_t g, int half,
    int32_t (*s)[TILE_TOKENS][16], const struct qwen_q8 *const *x,
    const int32_t (*a)[8], size_t n, __m512 (*acc)[2])
{
	__m512 d[8];
	size_t t;
	int j;

#pragma GCC unroll 8
	for (j = 0; j < 8; j++)
		d[j] = _mm512_load_ps(p->d[g][j] + 16 * half);
	for (t = 0; t < n; t++) {
		__m512 part = _mm512_setzero_ps();

#pragma GCC unroll 8
		for (j = 0; j < 8; j++) {
			__m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(
			    _mm512_load_si512(s[j][t])),
			    _mm512_castsi512_ps(broadcast(&a[t][j])));

			part = _mm512_fmadd_ps(d[j], v, part);
		}
		acc[t][half] = _mm512_fmadd_ps(_mm512_set1_ps(x[t]->d), part,
		    acc[t][half]);
	}
}

const struct qwen_kernel AMX_VARIANT(gemm_q8_0_amx) = {
	.op = QWEN_OP_GEMM, .type = QT_Q8_0, .name = AMX_NAME,
	.rank = 50, .need = AMX_NEED, .min_tok = AMX_MIN_TOK(8),
	.below = AMX_BELOW(gemm_q8_0_avx512vnni), .run.matmul = gemm,
};
