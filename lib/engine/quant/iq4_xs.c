/* SPDX-License-Identifier: ISC */
/* iq4_xs.c - nibbles that index a table, 8 six-bit signed scales. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *src, size_t n, struct qwen_unpacked *u)
{
	int i, j;

	(void)n;
	u->d = load_f16(src);
	u->dmin = 0.0f;
	for (j = 0; j < 8; j++) {
		int low = src[4 + j / 2] >> 4 * (j & 1) & 15;
		int high = load16(src + 2) >> 2 * j & 3;

		u->scale[2 * j] = u->scale[2 * j + 1] =
		    (int16_t)((low | high << 4) - 32);
		u->min[2 * j] = u->min[2 * j + 1] = 0;
		for (i = 0; i < 32; i++)
			u->w[32 * j + i] =
			    iq4_values[nibble32(src + 8 + 16 * j, i)];
	}
}

const struct qwen_quant qwen_quant_iq4_xs = {
	.type = QT_IQ4_XS, .block_len = 256, .block_bytes = 136,
	.kind = QWEN_QUANT_SUPER, .grain = QWEN_F16_GRAIN,
	.unpack = unpack, .finite = f16_finite,
};
