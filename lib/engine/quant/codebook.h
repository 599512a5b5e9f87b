/* SPDX-License-Identifier: ISC */
/*
 * codebook.h - the grids of ggml's IQ formats (codebook.c), and computing
 * weights from their entries (static inline only).
 *
 * All weights of these formats are d 2^-p (2 c + 1) I, with c of three or four
 * bits per 16 or 32 weights, I an integer of magnitude at most 62, and p a
 * constant of the format.  So (2 c + 1) is the scale of a sub-block, and d 2^-p
 * is exact.
 */
#ifndef QWEN_QUANT_CODEBOOK_H
#define QWEN_QUANT_CODEBOOK_H

#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

/* Magnitudes.  Those of IQ1 are 0, 8, 16: in eighths, plus 8. */
#define QWEN_GRID(name, n, k)						\
	extern const uint8_t name[n][k] __attribute__((aligned(64)))
QWEN_GRID(qwen_grid_iq1, 2048, 8);
QWEN_GRID(qwen_grid_iq2_xxs, 256, 8);
QWEN_GRID(qwen_grid_iq2_xs, 512, 8);
QWEN_GRID(qwen_grid_iq2_s, 1024, 8);
QWEN_GRID(qwen_grid_iq3_xxs, 256, 4);
QWEN_GRID(qwen_grid_iq3_s, 512, 4);

/* Expands seven signs to a mask of eight with an even number of ones. */
static inline unsigned
qwen_expand_signs(unsigned t)
{
	unsigned p = t ^ t >> 4;

	p ^= p >> 2;
	return t | ((p ^ p >> 1) & 1) << 7;
}

/* Unpacks n weights of an entry with signs. */
static inline void
qwen_grid_weights(int8_t *w, const uint8_t *entry, int n, unsigned signs)
{
	int j;

	for (j = 0; j < n; j++)
		w[j] = (int8_t)(signs >> j & 1 ? -entry[j] : entry[j]);
}

/* Unpacks eight weights of IQ1: the entry shifted by one eighth, up or down. */
static inline void
qwen_grid1_weights(int8_t *w, unsigned k, unsigned down)
{
	int j;

	for (j = 0; j < 8; j++)
		w[j] = (int8_t)(qwen_grid_iq1[k][j] - (down ? 9 : 7));
}

/* Returns 2 c + 1. */
static inline int16_t
qwen_odd_scale(unsigned c)
{
	return (int16_t)(2 * c + 1);
}

/* Return d / 8 and d / 4. */
static inline float
qwen_load_f16_8th(const unsigned char *p)
{
	return qwen_load_f16(p) * 0x1p-3f;
}

static inline float
qwen_load_f16_4th(const unsigned char *p)
{
	return qwen_load_f16(p) * 0x1p-2f;
}

#endif
