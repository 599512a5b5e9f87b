/* SPDX-License-Identifier: ISC */
/* iq2_xxs.c - groups of 8 from a grid of 256, a 4-bit scale per 32 weights. */
#include "engine/quant/codebook.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int g, l;

	for (g = 0; g < 8; g++) {
		const unsigned char *k = block + 2 + 8 * g;
		uint32_t a = qwen_le32(k + 4);

		u->scale[2 * g] = u->scale[2 * g + 1] = qwen_odd_scale(a >> 28);
		for (l = 0; l < 4; l++)
			qwen_grid_weights(w + 32 * g + 8 * l,
			    qwen_grid_iq2_xxs[k[l]], 8,
			    qwen_expand_signs(a >> 7 * l & 127));
	}
}

const struct qwen_quant qwen_quant_iq2_xxs = {
	QWEN_QUANT_INTEGERS(IQ2_XXS),
	.number = qwen_load_f16_8th, .unpack = unpack,
};
