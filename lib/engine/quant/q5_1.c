/* SPDX-License-Identifier: ISC */
/* q5_1.c - f16 d, f16 m, u32 of fifth bits, nibbles: d * n + m. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *src, size_t n, struct qwen_unpacked *u)
{
	size_t b;
	int i;

	for (b = 0; b < n / 32; b++, src += 24) {
		u->d32[b] = load_f16(src);
		u->m32[b] = load_f16(src + 2);
		uint32_t h = load32(src + 4);

		for (i = 0; i < 32; i++)
			u->w[32 * b + (size_t)i] = (int8_t)(nibble32(src + 8, i) | (int)(h >> i & 1) << 4);
	}
}

const struct qwen_quant qwen_quant_q5_1 = {
	.type = QT_Q5_1, .block_len = 32, .block_bytes = 24,
	.kind = QWEN_QUANT_32, .has_min = 1, .grain = QWEN_F16_GRAIN,
	.unpack = unpack, .finite = two_f16_finite,
};
