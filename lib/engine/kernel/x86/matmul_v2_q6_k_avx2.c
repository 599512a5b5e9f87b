/* SPDX-License-Identifier: ISC */
/* matmul_v2_q6_k_avx2.c - version 2, W in Q6_K, AVX2. */
#define SCALE_QUADS 4
#include "engine/kernel/x86/dequant256.h"
#include "engine/kernel/x86/unpack256_q6_k.h"

/* Weights come 32 too large. */
PI void
prepare(struct panel *p, size_t j, int part, int half)
{
	__m256 mul = _mm256_mul_ps(_mm256_load_ps(p->d[0][0] + 8 * half),
	    scales_f32(p->scale[0][2 * j + (size_t)part] + 8 * half));

	_mm256_store_ps(p->mul[j] + 8 * half, mul);
	_mm256_store_ps(p->add[j] + 8 * half, _mm256_mul_ps(mul,
	    _mm256_set1_ps(-32.0f)));
}

const struct qwen_kernel qwen_matmul_v2_q6_k_avx2 = {
	.op = QWEN_OP_MATMUL_V2, .type = QT_Q6_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
