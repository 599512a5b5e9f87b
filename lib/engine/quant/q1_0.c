/* SPDX-License-Identifier: ISC */
/* q1_0.c - f16 d, 128 bits: d or -d. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 128; i++)
		w[i] = block[2 + i / 8] >> i % 8 & 1 ? 1 : -1;
}

const struct qwen_quant qwen_quant_q1_0 = {
	QWEN_QUANT_INTEGERS(Q1_0), .number = qwen_load_f16, .unpack = unpack,
};
