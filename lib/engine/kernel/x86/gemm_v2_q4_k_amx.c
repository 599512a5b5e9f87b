/* SPDX-License-Identifier: ISC */
/* gemm_v2_q4_k_amx.c - version 2 for many tokens, W in Q4_K, AMX. */
#define BLOCK_BYTES 144
#include "engine/kernel/x86/panel_amx_v2.h"
#include "engine/kernel/x86/dequant_q4_k.h"

const struct qwen_kernel AMX_VARIANT(gemm_v2_q4_k_amx) = {
	.op = QWEN_OP_GEMM_V2, .type = QT_Q4_K, .name = AMX_NAME,
	.rank = 60, .need = AMX_NEED, .min_tok = AMX_MIN_TOK(4),
	.run.matmul = gemm,
};
