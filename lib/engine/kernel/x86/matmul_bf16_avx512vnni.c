/* SPDX-License-Identifier: ISC */
/* matmul_bf16_avx512vnni.c - y = Wx, W in BF16, x in f32, AVX-512. */
#define WEIGHT uint16_t
#define LOAD v_load_bf16
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_bf16_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_BF16, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
