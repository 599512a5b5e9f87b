/* SPDX-License-Identifier: ISC */
/* q4_k.c - f16 d, f16 dmin, 12 bytes of 6-bit scales, nibbles. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	qwen_unpack_k4_scales(block + 4, u->scale, u->min);
	for (i = 0; i < 256; i++) {
		int j = i / 32, byte = block[16 + 32 * (j / 2) + i % 32];

		w[i] = (int8_t)(j % 2 == 0 ? byte & 15 : byte >> 4);
	}
}

const struct qwen_quant qwen_quant_q4_k = {
	QWEN_QUANT_INTEGERS(Q4_K), .number = qwen_load_f16, .unpack = unpack,
};
