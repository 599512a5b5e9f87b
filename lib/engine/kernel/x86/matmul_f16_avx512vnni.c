/* SPDX-License-Identifier: ISC */
/* matmul_f16_avx512vnni.c - y = Wx, W in F16, x in f32, AVX-512. */
#define WEIGHT uint16_t
#define LOAD v_load_f16
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f16_avx512vnni = {
	.op = QWEN_OP_MATMUL, .type = QT_F16, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.matmul = matmul,
};
