/* SPDX-License-Identifier: ISC */
/* q4_0.c - f16 d, 16 bytes of nibbles: d * (n - 8). */
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
			u->w[32 * b + (size_t)i] = (int8_t)(nibble32(src + 2, i) - 8);
	}
}

const struct qwen_quant qwen_quant_q4_0 = {
	.type = QT_Q4_0, .block_len = 32, .block_bytes = 18,
	.kind = QWEN_QUANT_32, .grain = QWEN_F16_GRAIN,
	.unpack = unpack, .finite = f16_finite,
};
