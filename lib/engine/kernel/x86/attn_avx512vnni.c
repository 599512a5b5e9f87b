/* SPDX-License-Identifier: ISC */
/* attn_avx512vnni.c - attention over a chunk, AVX-512. */
#include "engine/kernel/attn.inc"

const struct qwen_kernel qwen_attn_avx512vnni = {
	.op = QWEN_OP_ATTN, .type = QWEN_ANY_TYPE, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.attn = attn,
};
