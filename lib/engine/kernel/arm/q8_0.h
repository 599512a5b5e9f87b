/* SPDX-License-Identifier: ISC */
/* q8_0.h - eight blocks of Q8_0: a scale and 32 integers each. */
#include "engine/kernel/arm/dot.h"

#define BLOCK_BYTES (8 * 34)

AI void
weights(const unsigned char *p, int8x16_t *w)
{
	int i;

	for (i = 0; i < 16; i++)
		w[i] = vld1q_s8((const int8_t *)p + i / 2 * 34 + 2 +
		    i % 2 * 16);
}
