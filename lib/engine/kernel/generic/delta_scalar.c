/* SPDX-License-Identifier: ISC */
/* delta_scalar.c - the gated delta rule, plain C. */
#include "engine/kernel/delta.inc"

const struct qwen_kernel qwen_delta_scalar = {
	.op = QWEN_OP_DELTA, .type = QWEN_ANY_TYPE, .name = "scalar",
	.rank = 0, .need = 0, .run.delta = delta,
};
