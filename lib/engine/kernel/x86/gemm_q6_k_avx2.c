/* SPDX-License-Identifier: ISC */
/* gemm_q6_k_avx2.c - y = Wx for many tokens, W in Q6_K, AVX2. */
#include "engine/kernel/x86/panel256_q6_k.h"

const struct qwen_kernel qwen_gemm_q6_k_avx2 = {
	.op = QWEN_OP_GEMM, .type = QT_Q6_K, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .min_tok = 5,
	.run.matmul = gemm,
};
