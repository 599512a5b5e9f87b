/* SPDX-License-Identifier: ISC */
/* q2_0.c - f16 d, 64 two-bit weights: d * (n - 1). */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 64; i++)
		w[i] = (int8_t)((block[2 + i / 4] >> 2 * (i % 4) & 3) - 1);
}

const struct qwen_quant qwen_quant_q2_0 = {
	QWEN_QUANT_INTEGERS(Q2_0), .number = qwen_load_f16, .unpack = unpack,
};
