/* SPDX-License-Identifier: ISC */
/* f16.c - IEEE half precision. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
widen(const unsigned char *src, size_t n, float *dst)
{
	size_t i;

	for (i = 0; i < n; i++)
		dst[i] = load_f16(src + 2 * i);
}

const struct qwen_quant qwen_quant_f16 = {
	.type = QT_F16, .block_len = 1, .block_bytes = 2,
	.kind = QWEN_QUANT_FLOAT, .widen = widen, .finite = f16_finite,
};
