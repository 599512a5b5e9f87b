/* SPDX-License-Identifier: ISC */
/* iq4_xs.c - nibbles that index a table, 8 six-bit signed scales. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i, j;

	for (j = 0; j < 8; j++) {
		int low = block[4 + j / 2] >> 4 * (j & 1) & 15;
		int high = qwen_le16(block + 2) >> 2 * j & 3;

		u->scale[2 * j] = u->scale[2 * j + 1] =
		    (int16_t)((low | high << 4) - 32);
		for (i = 0; i < 32; i++)
			w[32 * j + i] =
			    qwen_iq4_values[qwen_nibble_of_32(block + 8 +
			    16 * j, i)];
	}
}

const struct qwen_quant qwen_quant_iq4_xs = {
	QWEN_QUANT_INTEGERS(IQ4_XS), .number = qwen_load_f16, .unpack = unpack,
};
