/* SPDX-License-Identifier: ISC */
/* iq2_xs.c - groups of 8 from a grid of 512, a 4-bit scale per 16 weights. */
#include "engine/quant/codebook.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++)
		u->scale[i] = qwen_odd_scale(block[66 +
		    i / 2] >> 4 * (i & 1) & 15);
	for (i = 0; i < 32; i++) {
		unsigned q = qwen_le16(block + 2 + 2 * i);

		qwen_grid_weights(w + 8 * i, qwen_grid_iq2_xs[q & 511], 8,
		    qwen_expand_signs(q >> 9));
	}
}

const struct qwen_quant qwen_quant_iq2_xs = {
	QWEN_QUANT_INTEGERS(IQ2_XS),
	.number = qwen_load_f16_8th, .unpack = unpack,
};
