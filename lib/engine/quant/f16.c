/* SPDX-License-Identifier: ISC */
/* f16.c - IEEE half precision. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

const struct qwen_quant qwen_quant_f16 = {
	.type = QT_F16, .block_len = 1, .block_bytes = 2,
	.kind = QWEN_QUANT_FLOAT, .number = qwen_load_f16,
};
