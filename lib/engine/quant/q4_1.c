/* SPDX-License-Identifier: ISC */
/* q4_1.c - f16 d, f16 m, 16 bytes of nibbles: d * n + m. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 32; i++)
		w[i] = (int8_t)qwen_nibble_of_32(block + 4, i);
}

const struct qwen_quant qwen_quant_q4_1 = {
	QWEN_QUANT_INTEGERS(Q4_1), .number = qwen_load_f16, .unpack = unpack,
};
