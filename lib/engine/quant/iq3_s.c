/* SPDX-License-Identifier: ISC */
/* iq3_s.c - groups of 4 from a grid of 512, a 4-bit scale per 32 weights. */
#include "engine/quant/codebook.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++)
		u->scale[i] = qwen_odd_scale(block[106 + i / 4] >>
		    4 * (i / 2 & 1) & 15);
	for (i = 0; i < 64; i++) {
		unsigned high = block[66 + i / 8] >> i % 8 & 1;

		qwen_grid_weights(w + 4 * i,
		    qwen_grid_iq3_s[block[2 + i] | high << 8], 4,
		    block[74 + i / 2] >> 4 * (i & 1));
	}
}

const struct qwen_quant qwen_quant_iq3_s = {
	QWEN_QUANT_INTEGERS(IQ3_S), .number = qwen_load_f16, .unpack = unpack,
};
