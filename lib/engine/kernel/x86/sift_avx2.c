/* SPDX-License-Identifier: ISC */
/* sift_avx2.c - passes over a row of logits, AVX2. */
#include "engine/kernel/sift.inc"

const struct qwen_kernel qwen_sift_avx2 = {
	.op = QWEN_OP_SIFT, .type = QWEN_ANY_TYPE, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.sift = &sift,
};
