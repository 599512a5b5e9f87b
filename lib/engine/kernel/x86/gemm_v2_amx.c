/* SPDX-License-Identifier: ISC */
/* gemm_v2_amx.c - version 2 for many tokens, any quantised format, AMX. */
#define ANY_FORMAT
#include "engine/kernel/x86/panel_amx_v2.h"

const struct qwen_kernel AMX_VARIANT(gemm_v2_amx) = {
	.op = QWEN_OP_GEMM_V2, .type = QWEN_ANY_TYPE, .name = AMX_NAME,
	.rank = 50, .need = AMX_NEED, .min_tok = AMX_MIN_TOK(4),
	.run.matmul = gemm,
};
