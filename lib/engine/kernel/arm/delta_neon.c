/* SPDX-License-Identifier: ISC */
/* delta_neon.c - the gated delta rule, NEON. */
#define VEC_NEON
#include "engine/kernel/delta.inc"

const struct qwen_kernel qwen_delta_neon = {
	.op = QWEN_OP_DELTA, .type = QWEN_ANY_TYPE, .name = "neon",
	.rank = 20, .need = QWEN_CPU_NEON, .run.delta = delta,
};
