/* SPDX-License-Identifier: ISC */
/* f32.c - IEEE single precision. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
widen(const unsigned char *src, size_t n, float *dst)
{
	memcpy(dst, src, n * sizeof *dst);
}

static int
finite(const unsigned char *block)
{
	return (load32(block) & 0x7f800000) != 0x7f800000;
}

const struct qwen_quant qwen_quant_f32 = {
	.type = QT_F32, .block_len = 1, .block_bytes = 4,
	.kind = QWEN_QUANT_FLOAT, .widen = widen, .finite = finite,
};
