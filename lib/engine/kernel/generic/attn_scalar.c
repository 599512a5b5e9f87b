/* SPDX-License-Identifier: ISC */
/* attn_scalar.c - attention over a chunk, plain C. */
#include "engine/kernel/attn.inc"

const struct qwen_kernel qwen_attn_scalar = {
	.op = QWEN_OP_ATTN, .type = QWEN_ANY_TYPE, .name = "scalar",
	.rank = 0, .need = 0, .run.attn = attn,
};
