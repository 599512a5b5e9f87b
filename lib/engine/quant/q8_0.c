/* SPDX-License-Identifier: ISC */
/* q8_0.c - f16 d, 32 signed bytes: d * q. */
#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 32; i++)
		w[i] = (int8_t)block[2 + i];
}

const struct qwen_quant qwen_quant_q8_0 = {
	QWEN_QUANT_INTEGERS(Q8_0), .number = qwen_load_f16, .unpack = unpack,
};
