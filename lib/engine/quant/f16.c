/* SPDX-License-Identifier: ISC */
/* f16.c - IEEE half precision. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

const struct qwen_quant qwen_quant_f16 = {
	QWEN_QUANT_FLOATS(F16), .number = qwen_load_f16,
};
