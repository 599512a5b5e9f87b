/* SPDX-License-Identifier: ISC */
/* matmul_v2_q8_0_avx512vnni.c - version 2, W in Q8_0, AVX-512. */
#define BLOCK_BYTES (8 * 34)
#include "engine/kernel/x86/panel_v2.h"
#include "engine/kernel/x86/dequant_q8_0.h"

const struct qwen_kernel qwen_matmul_v2_q8_0_avx512vnni = {
	.op = QWEN_OP_MATMUL_V2, .type = QT_Q8_0, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
