/* SPDX-License-Identifier: ISC */
/* matmul_f16_avx2.c - y = Wx, W in F16, x in f32, AVX2. */
#define WEIGHT uint16_t
#define LOAD v_load_f16
#include "engine/kernel/matmul_float.inc"

const struct qwen_kernel qwen_matmul_f16_avx2 = {
	.op = QWEN_OP_MATMUL, .type = QT_F16, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.matmul = matmul,
};
