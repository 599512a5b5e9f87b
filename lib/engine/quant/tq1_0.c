/* SPDX-License-Identifier: ISC */
/*
 * tq1_0.c - five base-3 digits per byte, as a fraction of 256: d * (n - 1).
 * 256 weights share a d.
 */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static int
digit(unsigned byte, int n)
{
	static const unsigned power[5] = { 1, 3, 9, 27, 81 };

	return (int)((byte * power[n] & 255) * 3 >> 8);
}

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i, v;

	qwen_scales_to_one(u);
	for (i = 0; i < 256; i++) {
		if (i < 160)
			v = digit(block[i % 32], i / 32);
		else if (i < 240)
			v = digit(block[32 + i % 16], (i - 160) / 16);
		else
			v = digit(block[48 + i % 4], (i - 240) / 4);
		w[i] = (int8_t)(v - 1);
	}
}

const struct qwen_quant qwen_quant_tq1_0 = {
	QWEN_QUANT_INTEGERS(TQ1_0), .number = qwen_load_f16, .unpack = unpack,
};
