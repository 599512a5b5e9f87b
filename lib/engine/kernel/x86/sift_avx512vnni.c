/* SPDX-License-Identifier: ISC */
/* sift_avx512vnni.c - passes over a row of logits, AVX-512. */
#include "engine/kernel/sift.inc"

const struct qwen_kernel qwen_sift_avx512vnni = {
	.op = QWEN_OP_SIFT, .type = QWEN_ANY_TYPE, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.sift = &sift,
};
