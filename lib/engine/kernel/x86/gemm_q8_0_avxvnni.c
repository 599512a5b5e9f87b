/* SPDX-License-Identifier: ISC */
/* gemm_q8_0_avxvnni.c - y = Wx for many tokens, W in Q8_0, AVX-VNNI. */
#include "engine/kernel/x86/panel256_q8_0.h"

const struct qwen_kernel qwen_gemm_q8_0_avxvnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q8_0, .name = "avxvnni",
	.rank = 30, .need = QWEN_CPU_AVX2 | QWEN_CPU_AVXVNNI,
	.min_tok = 4, .run.matmul = gemm,
};
