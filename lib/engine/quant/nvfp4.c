/* SPDX-License-Identifier: ISC */
/*
 * nvfp4.c - nibbles that index a table; 16 weights share an 8-bit scale: E4M3
 * without sign, halved, since the table has twice the values.
 */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static float
number(const unsigned char *p)
{
	uint32_t s = *p & 127, exp = s >> 3, man = s & 7;

	if (s == 127)		/* NaN in E4M3; here it means zero */
		return 0.0f;
	if (exp == 0)
		return (float)man * 0x1p-10f;
	return qwen_bits_f32((exp + 119) << 23 | man << 20);
}

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 64; i++) {
		int n = block[4 + i / 16 * 8 + i % 8];

		w[i] = qwen_fp4_values[i % 16 < 8 ? n & 15 : n >> 4];
	}
}

const struct qwen_quant qwen_quant_nvfp4 = {
	QWEN_QUANT_INTEGERS(NVFP4), .number = number, .unpack = unpack,
};
