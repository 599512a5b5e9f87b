/* SPDX-License-Identifier: ISC */
/* gemm_q8_0_avx2.c - y = Wx for many tokens, W in Q8_0, AVX2. */
#include "engine/kernel/x86/panel256_q8_0.h"

const struct qwen_kernel qwen_gemm_q8_0_avx2 = {
	.op = QWEN_OP_GEMM, .type = QT_Q8_0, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .min_tok = 4,
	.run.matmul = gemm,
};
