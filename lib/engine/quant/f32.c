/* SPDX-License-Identifier: ISC */
/* f32.c - IEEE single precision. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static float
number(const unsigned char *p)
{
	return qwen_bits_f32(qwen_le32(p));
}

const struct qwen_quant qwen_quant_f32 = {
	QWEN_QUANT_FLOATS(F32), .number = number,
};
