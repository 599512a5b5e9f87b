/* SPDX-License-Identifier: ISC */
/* delta_avx2.c - the gated delta rule, AVX2. */
#include "engine/kernel/delta.inc"

const struct qwen_kernel qwen_delta_avx2 = {
	.op = QWEN_OP_DELTA, .type = QWEN_ANY_TYPE, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.delta = delta,
};
