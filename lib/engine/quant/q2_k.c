/* SPDX-License-Identifier: ISC */
/* q2_k.c - 2-bit weights, 16 four-bit scales and minimums. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++) {
		u->scale[i] = block[i] & 15;
		u->min[i] = block[i] >> 4;
	}
	for (i = 0; i < 256; i++) {
		int h = i / 128, g = i % 128 / 32, l = i % 32;

		w[i] = (int8_t)(block[16 + 32 * h + l] >> 2 * g & 3);
	}
}

const struct qwen_quant qwen_quant_q2_k = {
	QWEN_QUANT_INTEGERS(Q2_K), .number = qwen_load_f16, .unpack = unpack,
};
