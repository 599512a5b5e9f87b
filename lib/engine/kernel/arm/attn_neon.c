/* SPDX-License-Identifier: ISC */
/* attn_neon.c - attention over a chunk, NEON. */
#define VEC_NEON
#include "engine/kernel/attn.inc"

const struct qwen_kernel qwen_attn_neon = {
	.op = QWEN_OP_ATTN, .type = QWEN_ANY_TYPE, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.attn = attn,
};
