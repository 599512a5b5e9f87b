/* SPDX-License-Identifier: ISC */
/* iq4_nl.c - f16 d, nibbles that index a table: d * v[n]. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *src, size_t n, struct qwen_unpacked *u)
{
	size_t b;
	int i;

	for (b = 0; b < n / 32; b++, src += 18) {
		u->d32[b] = load_f16(src);
		u->m32[b] = 0.0f;
		for (i = 0; i < 32; i++)
			u->w[32 * b + (size_t)i] = (int8_t)(iq4_values[nibble32(src + 2, i)]);
	}
}

const struct qwen_quant qwen_quant_iq4_nl = {
	.type = QT_IQ4_NL, .block_len = 32, .block_bytes = 18,
	.kind = QWEN_QUANT_32, .grain = QWEN_F16_GRAIN,
	.unpack = unpack, .finite = f16_finite,
};
