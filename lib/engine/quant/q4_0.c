/* SPDX-License-Identifier: ISC */
/* q4_0.c - f16 d, 16 bytes of nibbles: d * (n - 8). */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 32; i++)
		w[i] = (int8_t)(qwen_nibble_of_32(block + 2, i) - 8);
}

const struct qwen_quant qwen_quant_q4_0 = {
	QWEN_QUANT_INTEGERS(Q4_0), .number = qwen_load_f16, .unpack = unpack,
};
