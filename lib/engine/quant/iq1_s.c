/* SPDX-License-Identifier: ISC */
/*
 * iq1_s.c - groups of 8 from a grid of 2048, shifted by an eighth up or down; a
 * 3-bit scale per 32 weights.
 */
#include "engine/quant/codebook.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int g, l;

	for (g = 0; g < 8; g++) {
		unsigned h = qwen_le16(block + 34 + 2 * g);

		u->scale[2 * g] = u->scale[2 * g + 1] =
		    qwen_odd_scale(h >> 12 & 7);
		for (l = 0; l < 4; l++)
			qwen_grid1_weights(w + 32 * g + 8 * l,
			    block[2 + 4 * g + l] | (h >> 3 * l & 7) << 8,
			    h >> 15);
	}
}

const struct qwen_quant qwen_quant_iq1_s = {
	QWEN_QUANT_INTEGERS(IQ1_S),
	.number = qwen_load_f16_8th, .unpack = unpack,
};
