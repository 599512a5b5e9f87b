/* SPDX-License-Identifier: ISC */
/*
 * layout.h - functions that several block layouts share (static inline only).
 */
#ifndef QWEN_QUANT_LAYOUT_H
#define QWEN_QUANT_LAYOUT_H

#include <stdint.h>
#include <string.h>

#include "base/cursor.h"
#include "base/half.h"
#include "engine/quant/formats.h"
#include "engine/quant/quant.h"

static inline float
qwen_load_f16(const unsigned char *p)
{
	return qwen_f16_f32(qwen_le16(p));
}

/* Returns nibble i of 32 in the order of Q4_0: the low nibbles come first. */
static inline int
qwen_nibble_of_32(const unsigned char *qs, int i)
{
	return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4;
}

/* Sets all scales to 1, for 256 weights whose only scale is d. */
static inline void
qwen_scales_to_one(struct qwen_unpacked *u)
{
	int i;

	for (i = 0; i < 16; i++)
		u->scale[i] = 1;
}

/*
 * Unpacks the eight 6-bit scales and minimums of Q4_K and Q5_K, one per 32
 * weights.
 */
static inline void
qwen_unpack_k4_scales(const unsigned char *s, int16_t *scale, int16_t *min)
{
	int j, sc, mn;

	for (j = 0; j < 8; j++) {
		if (j < 4) {
			sc = s[j] & 63;
			mn = s[j + 4] & 63;
		} else {
			sc = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
			mn = s[j + 4] >> 4 | (s[j] >> 6) << 4;
		}
		scale[2 * j] = scale[2 * j + 1] = (int16_t)sc;
		min[2 * j] = min[2 * j + 1] = (int16_t)mn;
	}
}

/* The 16 values of E2M1, times two, for MXFP4 and NVFP4. */
static const int8_t qwen_fp4_values[16] = {
	0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12
};

/* The 16 values of IQ4_NL and IQ4_XS. */
static const int8_t qwen_iq4_values[16] = {
	-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

#endif
