/* SPDX-License-Identifier: ISC */
/* gemm_q5_k_avx512vnni.c - y = Wx for many tokens, W in Q5_K, AVX-512 VNNI. */
#define BLOCK_BYTES 176
#include "engine/kernel/x86/panel_k4.h"
#include "engine/kernel/x86/unpack_q5_k.h"

const struct qwen_kernel qwen_gemm_q5_k_avx512vnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q5_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .min_tok = 4,
	.run.matmul = gemm,
};
