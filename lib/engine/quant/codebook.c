/* SPDX-License-Identifier: ISC */
/*
 * codebook.c - the grids of ggml's IQ formats, as the file format defines them.
 *
 * grids/NAME.txt has an entry's codes as a number, the first weight's code in
 * the lowest bits, with two bits per code (four for IQ3).  Entries ascend.  The
 * Makefile writes E() around each; here E() converts the codes to magnitudes.
 */
#include "engine/quant/codebook.h"

#define EIGHT(of, c) { of((c) & 3), of((c) >> 2 & 3), of((c) >> 4 & 3),	\
	of((c) >> 6 & 3), of((c) >> 8 & 3), of((c) >> 10 & 3),		\
	of((c) >> 12 & 3), of((c) >> 14 & 3) }
#define FOUR(of, c) { of((c) & 15), of((c) >> 4 & 15), of((c) >> 8 & 15), \
	of((c) >> 12 & 15) }

/* The magnitude of a code in each format. */
#define OF_IQ1(c) (8 * (c))
#define OF_IQ2(c) (8 + 17 * (c) + ((c) == 2))
#define OF_IQ3_XXS(c) (4 + 8 * (c) + 2 * ((c) == 7))
#define OF_IQ3_S(c) (1 + 2 * (c))

#define E(c) EIGHT(OF_IQ1, c)
const uint8_t qwen_grid_iq1[2048][8] = {
#include "grids/iq1.inc"
};

#undef E
#define E(c) EIGHT(OF_IQ2, c)
const uint8_t qwen_grid_iq2_xxs[256][8] = {
#include "grids/iq2_xxs.inc"
};

const uint8_t qwen_grid_iq2_xs[512][8] = {
#include "grids/iq2_xs.inc"
};

const uint8_t qwen_grid_iq2_s[1024][8] = {
#include "grids/iq2_s.inc"
};

#undef E
#define E(c) FOUR(OF_IQ3_XXS, c)
const uint8_t qwen_grid_iq3_xxs[256][4] = {
#include "grids/iq3_xxs.inc"
};

#undef E
#define E(c) FOUR(OF_IQ3_S, c)
const uint8_t qwen_grid_iq3_s[512][4] = {
#include "grids/iq3_s.inc"
};
