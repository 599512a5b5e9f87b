/* SPDX-License-Identifier: ISC */
/* iq4_nl.c - f16 d, nibbles that index a table: d * v[n]. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 32; i++)
		w[i] = qwen_iq4_values[qwen_nibble_of_32(block + 2, i)];
}

const struct qwen_quant qwen_quant_iq4_nl = {
	QWEN_QUANT_INTEGERS(IQ4_NL), .number = qwen_load_f16, .unpack = unpack,
};
