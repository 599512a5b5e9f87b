/* SPDX-License-Identifier: ISC */
/* attn_avx2.c - attention over a chunk, AVX2. */
#include "engine/kernel/attn.inc"

const struct qwen_kernel qwen_attn_avx2 = {
	.op = QWEN_OP_ATTN, .type = QWEN_ANY_TYPE, .name = "avx2",
	.rank = 20, .need = QWEN_CPU_AVX2, .run.attn = attn,
};
