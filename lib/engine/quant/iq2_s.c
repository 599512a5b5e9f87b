/* SPDX-License-Identifier: ISC */
/* iq2_s.c - groups of 8 from a grid of 1024, a 4-bit scale per 16 weights. */
#include "engine/quant/codebook.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++)
		u->scale[i] = qwen_odd_scale(block[74 +
		    i / 2] >> 4 * (i & 1) & 15);
	for (i = 0; i < 32; i++) {
		unsigned high = block[66 + i / 4] >> 2 * (i % 4) & 3;

		qwen_grid_weights(w + 8 * i,
		    qwen_grid_iq2_s[block[2 + i] | high << 8], 8,
		    block[34 + i]);
	}
}

const struct qwen_quant qwen_quant_iq2_s = {
	QWEN_QUANT_INTEGERS(IQ2_S),
	.number = qwen_load_f16_8th, .unpack = unpack,
};
