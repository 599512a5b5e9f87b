/* SPDX-License-Identifier: ISC */
/*
 * iq1_m.c - groups of 8 from a grid of 2048, each shifted by an eighth up or
 * down; a 3-bit scale per 16 weights. d is in the remaining bits of the scales'
 * words.
 */
#include "engine/quant/codebook.h"

enum { SCALES = 48 };	/* four words, each with 4 bits of d and 4 scales */

static float
number(const unsigned char *p)
{
	unsigned d = 0;
	int i;

	for (i = 0; i < 4; i++)
		d |= (unsigned)qwen_le16(p + 2 * i) >> 12 << 4 * i;
	return qwen_f16_f32((uint16_t)d) * 0x1p-3f;
}

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++)
		u->scale[i] = qwen_odd_scale(qwen_le16(block + SCALES +
		    i / 4 * 2)
		    >> 3 * (i % 4) & 7);
	for (i = 0; i < 32; i++) {
		unsigned n = block[32 + i / 2] >> 4 * (i & 1) & 15;

		qwen_grid1_weights(w + 8 * i, block[i] | (n & 7) << 8, n >> 3);
	}
}

const struct qwen_quant qwen_quant_iq1_m = {
	QWEN_QUANT_INTEGERS(IQ1_M), .number = number, .unpack = unpack,
};
