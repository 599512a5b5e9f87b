/* SPDX-License-Identifier: ISC */
/* sift_neon.c - passes over a row of logits, NEON. */
#define VEC_NEON
#include "engine/kernel/sift.inc"

const struct qwen_kernel qwen_sift_neon = {
	.op = QWEN_OP_SIFT, .type = QWEN_ANY_TYPE, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.sift = &sift,
};
