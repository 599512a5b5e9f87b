/* SPDX-License-Identifier: ISC */
/* rows_avx2.c - small functions over rows, AVX2. */
#include "engine/kernel/rows.inc"

const struct qwen_kernel qwen_rows_avx2 = {
	.op = QWEN_OP_VEC, .type = QWEN_ANY_TYPE, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.vec = &rows,
};
