/* SPDX-License-Identifier: ISC */
/* rows_scalar.c - small functions over rows, plain C. */
#include "engine/kernel/rows.inc"

const struct qwen_kernel qwen_rows_scalar = {
	.op = QWEN_OP_VEC, .type = QWEN_ANY_TYPE, .name = "scalar",
	.rank = 0, .need = 0, .run.vec = &rows,
};
