/* SPDX-License-Identifier: ISC */
/*
 * mxfp4.c - 32 nibbles that index a table, times an 8-bit power of two (OCP
 * Microscaling Formats 1.0, section 5.3; the table has twice the values).
 */
#include <math.h>

#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

/*
 * Returns 2^(x - 128).  Above 252 the largest weight overflows; 255 is the
 * standard's NaN.
 */
static float
number(const unsigned char *p)
{
	return *p > 252 ? NAN : *p < 2 ? qwen_bits_f32(0x200000u << *p) :
	    qwen_bits_f32((uint32_t)(*p - 1) << 23);
}

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	int i;

	(void)u;
	for (i = 0; i < 32; i++)
		w[i] = qwen_fp4_values[qwen_nibble_of_32(block + 1, i)];
}

const struct qwen_quant qwen_quant_mxfp4 = {
	QWEN_QUANT_INTEGERS(MXFP4), .number = number, .unpack = unpack,
};
