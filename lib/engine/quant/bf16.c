/* SPDX-License-Identifier: ISC */
/* bf16.c - the upper half of an IEEE single. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static float
number(const unsigned char *p)
{
	return qwen_bf16_f32(qwen_le16(p));
}

const struct qwen_quant qwen_quant_bf16 = {
	QWEN_QUANT_FLOATS(BF16), .number = number,
};
