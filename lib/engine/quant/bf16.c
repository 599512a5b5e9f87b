/* SPDX-License-Identifier: ISC */
/* bf16.c - the upper half of a single. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
widen(const unsigned char *src, size_t n, float *dst)
{
	size_t i;

	for (i = 0; i < n; i++)
		dst[i] = qwen_bf16_f32(load16(src + 2 * i));
}

static int
finite(const unsigned char *block)
{
	return (load16(block) & 0x7f80) != 0x7f80;
}

const struct qwen_quant qwen_quant_bf16 = {
	.type = QT_BF16, .block_len = 1, .block_bytes = 2,
	.kind = QWEN_QUANT_FLOAT, .widen = widen, .finite = finite,
};
