/* SPDX-License-Identifier: ISC */
/* rows_neon.c - small functions over rows, NEON. */
#define VEC_NEON
#include "engine/kernel/rows.inc"

const struct qwen_kernel qwen_rows_neon = {
	.op = QWEN_OP_VEC, .type = QWEN_ANY_TYPE, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.vec = &rows,
};
