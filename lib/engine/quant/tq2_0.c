/* SPDX-License-Identifier: ISC */
/* tq2_0.c - two bits per weight: d * (n - 1).  256 weights share a d. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	qwen_scales_to_one(u);
	for (i = 0; i < 256; i++)
		w[i] = (int8_t)((block[i / 128 * 32 + i % 32] >>
		    2 * (i / 32 % 4) & 3) - 1);
}

const struct qwen_quant qwen_quant_tq2_0 = {
	QWEN_QUANT_INTEGERS(TQ2_0), .number = qwen_load_f16, .unpack = unpack,
};
