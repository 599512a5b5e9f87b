/* SPDX-License-Identifier: ISC */
/* rows_avx512vnni.c - small functions over rows, AVX-512. */
#include "engine/kernel/rows.inc"

const struct qwen_kernel qwen_rows_avx512vnni = {
	.op = QWEN_OP_VEC, .type = QWEN_ANY_TYPE, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.vec = &rows,
};
