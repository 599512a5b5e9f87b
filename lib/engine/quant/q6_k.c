/* SPDX-License-Identifier: ISC */
/* q6_k.c - 6-bit weights, as nibbles and pairs of bits; signed 8-bit scales. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++) {
		u->scale[i] = (signed char)block[192 + i];
	}
	for (i = 0; i < 256; i++) {
		int h = i / 128, g = i % 128 / 32, l = i % 32;
		int byte = block[64 * h + 32 * (g & 1) + l];
		int low = g < 2 ? byte & 15 : byte >> 4;
		int high = block[128 + 32 * h + l] >> 2 * g & 3;

		w[i] = (int8_t)((low | high << 4) - 32);
	}
}

const struct qwen_quant qwen_quant_q6_k = {
	QWEN_QUANT_INTEGERS(Q6_K), .number = qwen_load_f16, .unpack = unpack,
};
