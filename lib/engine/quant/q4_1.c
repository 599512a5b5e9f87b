/* SPDX-License-Identifier: ISC */
/* q4_1.c - f16 d, f16 m, 16 bytes of nibbles: d * n + m. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *src, size_t n, struct qwen_unpacked *u)
{
	size_t b;
	int i;

	for (b = 0; b < n / 32; b++, src += 20) {
		u->d32[b] = load_f16(src);
		u->m32[b] = load_f16(src + 2);
		for (i = 0; i < 32; i++)
			u->w[32 * b + (size_t)i] = (int8_t)(nibble32(src + 4, i));
	}
}

const struct qwen_quant qwen_quant_q4_1 = {
	.type = QT_Q4_1, .block_len = 32, .block_bytes = 20,
	.kind = QWEN_QUANT_32, .has_min = 1, .grain = QWEN_F16_GRAIN,
	.unpack = unpack, .finite = two_f16_finite,
};
