/* SPDX-License-Identifier: ISC */
/* q3_k.c - 3-bit weights, 16 six-bit signed scales. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++) {
		int low = i < 8 ? block[96 + i] & 15 : block[96 + i - 8] >> 4;
		int high = block[104 + i % 4] >> 2 * (i / 4) & 3;

		u->scale[i] = (int16_t)((low | high << 4) - 32);
	}
	for (i = 0; i < 256; i++) {
		int h = i / 128, g = i % 128 / 32, l = i % 32;
		int low = block[32 + 32 * h + l] >> 2 * g & 3;
		int bit = block[l] >> (4 * h + g) & 1;

		w[i] = (int8_t)(low - (bit ? 0 : 4));
	}
}

const struct qwen_quant qwen_quant_q3_k = {
	QWEN_QUANT_INTEGERS(Q3_K), .number = qwen_load_f16, .unpack = unpack,
};
