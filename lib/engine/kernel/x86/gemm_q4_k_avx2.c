/* SPDX-License-Identifier: ISC */
/* gemm_q4_k_avx2.c - y = Wx for many tokens, W in Q4_K, AVX2. */
#include "engine/kernel/x86/panel256_q4_k.h"

const struct qwen_kernel qwen_gemm_q4_k_avx2 = {
	.op = QWEN_OP_GEMM, .type = QT_Q4_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .min_tok = 3,
	.run.matmul = gemm,
};
