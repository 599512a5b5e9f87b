/* SPDX-License-Identifier: ISC */
/* q5_0.c - f16 d, u32 of fifth bits, nibbles: d * (n - 16). */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *src, size_t n, struct qwen_unpacked *u)
{
	size_t b;
	int i;

	for (b = 0; b < n / 32; b++, src += 22) {
		u->d32[b] = load_f16(src);
		u->m32[b] = 0.0f;
		uint32_t h = load32(src + 2);

		for (i = 0; i < 32; i++)
			u->w[32 * b + (size_t)i] = (int8_t)((nibble32(src + 6, i) | (int)(h >> i & 1) << 4) - 16);
	}
}

const struct qwen_quant qwen_quant_q5_0 = {
	.type = QT_Q5_0, .block_len = 32, .block_bytes = 22,
	.kind = QWEN_QUANT_32, .grain = QWEN_F16_GRAIN,
	.unpack = unpack, .finite = f16_finite,
};
