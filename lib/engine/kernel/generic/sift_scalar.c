/* SPDX-License-Identifier: ISC */
/* sift_scalar.c - passes over a row of logits, plain C. */
#include "engine/kernel/sift.inc"

const struct qwen_kernel qwen_sift_scalar = {
	.op = QWEN_OP_SIFT, .type = QWEN_ANY_TYPE, .name = "scalar",
	.rank = 0, .need = 0, .run.sift = &sift,
};
