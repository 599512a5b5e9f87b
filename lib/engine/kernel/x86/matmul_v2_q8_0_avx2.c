/* SPDX-License-Identifier: ISC */
/* matmul_v2_q8_0_avx2.c - version 2, W in Q8_0, AVX2. */
#define FLIP 0x80
#define SCALE_QUADS 8
#include "engine/kernel/x86/dequant256.h"
#include "engine/kernel/x86/unpack256_q8_0.h"

/* Weights come 128 too large. */
PI void
prepare(struct panel *p, size_t j, int part, int half)
{
	__m256 mul = _mm256_load_ps(p->d[0][j] + 8 * half);

	(void)part;
	_mm256_store_ps(p->mul[j] + 8 * half, mul);
	_mm256_store_ps(p->add[j] + 8 * half, _mm256_mul_ps(mul,
	    _mm256_set1_ps(-128.0f)));
}

const struct qwen_kernel qwen_matmul_v2_q8_0_avx2 = {
	.op = QWEN_OP_MATMUL_V2, .type = QT_Q8_0, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
