/* SPDX-License-Identifier: ISC */
/* q5_0.c - f16 d, u32 of fifth bits, nibbles: d * (n - 16). */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	uint32_t h = qwen_le32(block + 2);
	int i;

	(void)u;
	for (i = 0; i < 32; i++)
		w[i] = (int8_t)((qwen_nibble_of_32(block + 6, i) |
		    (int)(h >> i & 1) << 4) - 16);
}

const struct qwen_quant qwen_quant_q5_0 = {
	QWEN_QUANT_INTEGERS(Q5_0), .number = qwen_load_f16, .unpack = unpack,
};
