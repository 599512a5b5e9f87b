/* SPDX-License-Identifier: ISC */
/*
 * codebook.h - the grids of ggml's IQ formats (codebook.c), and how weights are
 * made of their entries (static inline only).
 *
 * All weights of these formats are d 2^-p (2 c + 1) I, with c of three or four
 * bits for 16 or 32 weights, I an integer of at most 62, and p a constant of
 * the format: so (2 c + 1) is the scale of a sub-block, and d 2^-p is exact.
 */
#ifndef QWEN_QUANT_CODEBOOK_H
#define QWEN_QUANT_CODEBOOK_H

#include "engine/quant/layout.h"
#include "engine/quant/quant.h"

extern const uint16_t qwen_grid_iq1[2048];	/* 8 weights of 2 bits */
extern const uint16_t qwen_grid_iq2_xxs[256];
extern const uint16_t qwen_grid_iq2_xs[512];
extern const uint16_t qwen_grid_iq2_s[1024];
extern const uint16_t qwen_grid_iq3_xxs[256];	/* 4 weights of 4 bits */
extern const uint16_t qwen_grid_iq3_s[512];

/* Seven signs as a mask of eight, in which the number of ones is even. */
static inline unsigned
signs8(unsigned t)
{
	unsigned p = t ^ t >> 4;

	p ^= p >> 2;
	return t | ((p ^ p >> 1) & 1) << 7;
}

/* n weights: codes of so many bits in an entry, values by code, signs. */
static inline void
grid_weights(int8_t *w, unsigned entry, int n, int bits, const int8_t *value,
    unsigned signs)
{
	int j, v;

	for (j = 0; j < n; j++) {
		v = value[entry >> bits * j & ((1u << bits) - 1)];
		w[j] = (int8_t)(signs >> j & 1 ? -v : v);
	}
}

static inline void
grid2_weights(int8_t *w, unsigned entry, unsigned signs)
{
	static const int8_t value[4] = { 8, 25, 43 };

	grid_weights(w, entry, 8, 2, value, signs);
}

/* Eighths: an entry of three values, moved by one up, or down if so. */
static inline void
grid1_weights(int8_t *w, unsigned k, unsigned down)
{
	static const int8_t value[2][4] = { { -7, 1, 9 }, { -9, -1, 7 } };

	grid_weights(w, qwen_grid_iq1[k], 8, 2, value[down], 0);
}

/* 2 c + 1 */
static inline int16_t
odd_scale(unsigned c)
{
	return (int16_t)(2 * c + 1);
}

/* d / 8 and d / 4. */
static inline float
load_f16_8th(const unsigned char *p)
{
	return load_f16(p) * 0x1p-3f;
}

static inline float
load_f16_4th(const unsigned char *p)
{
	return load_f16(p) * 0x1p-2f;
}

#endif
