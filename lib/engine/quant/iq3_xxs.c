/* SPDX-License-Identifier: ISC */
/* iq3_xxs.c - groups of 4 from a grid of 256, a 4-bit scale per 32 weights. */
#include "engine/quant/codebook.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int g, i;

	for (g = 0; g < 8; g++) {
		uint32_t a = qwen_le32(block + 66 + 4 * g);

		u->scale[2 * g] = u->scale[2 * g + 1] = qwen_odd_scale(a >> 28);
		for (i = 8 * g; i < 8 * g + 8; i++)
			qwen_grid_weights(w + 4 * i,
			    qwen_grid_iq3_xxs[block[2 + i]], 4,
			    qwen_expand_signs(a >> 7 * (i % 8 / 2) & 127) >>
			    4 * (i & 1));
	}
}

const struct qwen_quant qwen_quant_iq3_xxs = {
	QWEN_QUANT_INTEGERS(IQ3_XXS),
	.number = qwen_load_f16_4th, .unpack = unpack,
};
