/* SPDX-License-Identifier: ISC */
/* delta_avx512vnni.c - the gated delta rule, AVX-512. */
#include "engine/kernel/delta.inc"

const struct qwen_kernel qwen_delta_avx512vnni = {
	.op = QWEN_OP_DELTA, .type = QWEN_ANY_TYPE, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.delta = delta,
};
