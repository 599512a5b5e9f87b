/* SPDX-License-Identifier: ISC */
/* q2_k.c - 2-bit weights, 16 four-bit scales and minimums. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *src, size_t n, struct qwen_unpacked *u)
{
	int i;

	(void)n;
	u->d = load_f16(src + 80);
	u->dmin = load_f16(src + 82);
	for (i = 0; i < 16; i++) {
		u->scale[i] = src[i] & 15;
		u->min[i] = src[i] >> 4;
	}
	for (i = 0; i < 256; i++) {
		int h = i / 128, g = i % 128 / 32, l = i % 32;

		u->w[i] = (int8_t)(src[16 + 32 * h + l] >> 2 * g & 3);
	}
}

static int
finite(const unsigned char *block)
{
	return f16_finite(block + 80) && f16_finite(block + 82);
}

const struct qwen_quant qwen_quant_q2_k = {
	.type = QT_Q2_K, .block_len = 256, .block_bytes = 84,
	.kind = QWEN_QUANT_SUPER, .has_min = 1, .grain = QWEN_F16_GRAIN,
	.unpack = unpack, .finite = finite,
};
