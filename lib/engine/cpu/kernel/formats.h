/* SPDX-License-Identifier: ISC */
/*
 * formats.h - properties of the formats as constants, for kernels.  The type is
 * a constant wherever they are used, so each format gets its own code from one
 * source. tests/kernel/formats compares this table with lib/engine/quant.
 */
#ifndef QWEN_KERNEL_FORMATS_H
#define QWEN_KERNEL_FORMATS_H

#include "engine/cpu/kernel/kernel.h"

struct qwen_traits {
	unsigned	len, bytes;	/* of a block: weights, bytes */
	unsigned	d_at;		/* as in struct qwen_quant */
	int		has_min;
	/*
	 * Weights that share an integer scale, 16 or 32.  If a format has no
	 * integer scales: weights that share a d.
	 */
	unsigned	span;
	int		by_block;	/* no integer scales:
					   QWEN_QUANT_BLOCK */
	int		signed_scale;
	/*
	 * A power of two that kernels add to weights so that none is negative;
	 * and the largest weight after that.
	 */
	int		bias, most;
	float		d_by;		/* d is the f16 of the file times
					   this */
};

static const struct qwen_traits qwen_traits[QT_N] = {
	[QT_Q2_K] = { 256, 84, 80, 1, 16, 0, 0, 0, 3, 1.0f },
	[QT_Q3_K] = { 256, 110, 108, 0, 16, 0, 1, 4, 7, 1.0f },
	[QT_Q4_K] = { 256, 144, 0, 1, 32, 0, 0, 0, 15, 1.0f },
	[QT_Q5_K] = { 256, 176, 0, 1, 32, 0, 0, 0, 31, 1.0f },
	[QT_Q6_K] = { 256, 210, 208, 0, 16, 0, 1, 32, 63, 1.0f },
	[QT_TQ1_0] = { 256, 54, 52, 0, 32, 0, 0, 1, 2, 1.0f },
	[QT_TQ2_0] = { 256, 66, 64, 0, 32, 0, 0, 1, 3, 1.0f },
	[QT_IQ4_XS] = { 256, 136, 0, 0, 32, 0, 1, 128, 241, 1.0f },
	[QT_IQ1_S] = { 256, 50, 0, 0, 32, 0, 0, 16, 25, 0x1p-3f },
	[QT_IQ1_M] = { 256, 56, 48, 0, 16, 0, 0, 16, 25, 0x1p-3f },
	[QT_IQ2_XXS] = { 256, 66, 0, 0, 32, 0, 0, 64, 107, 0x1p-3f },
	[QT_IQ2_XS] = { 256, 74, 0, 0, 16, 0, 0, 64, 107, 0x1p-3f },
	[QT_IQ2_S] = { 256, 82, 0, 0, 16, 0, 0, 64, 107, 0x1p-3f },
	[QT_IQ3_XXS] = { 256, 98, 0, 0, 32, 0, 0, 64, 126, 0x1p-2f },
	[QT_IQ3_S] = { 256, 110, 0, 0, 32, 0, 0, 16, 31, 1.0f },
	[QT_Q4_0] = { 32, 18, 0, 0, 32, 1, 0, 8, 15, 1.0f },
	[QT_Q4_1] = { 32, 20, 0, 1, 32, 1, 0, 0, 15, 1.0f },
	[QT_Q5_0] = { 32, 22, 0, 0, 32, 1, 0, 16, 31, 1.0f },
	[QT_Q5_1] = { 32, 24, 0, 1, 32, 1, 0, 0, 31, 1.0f },
	[QT_Q8_0] = { 32, 34, 0, 0, 32, 1, 0, 128, 255, 1.0f },
	[QT_IQ4_NL] = { 32, 18, 0, 0, 32, 1, 0, 128, 241, 1.0f },
	[QT_MXFP4] = { 32, 17, 0, 0, 32, 1, 0, 16, 28, 1.0f },
	[QT_NVFP4] = { 64, 36, 0, 0, 16, 1, 0, 16, 28, 1.0f },
	[QT_Q2_0] = { 64, 18, 0, 0, 64, 1, 0, 1, 3, 1.0f },
	[QT_Q1_0] = { 128, 18, 0, 0, 128, 1, 0, 1, 2, 1.0f },
};

/* Lists like QWEN_FORMATS (kernel.h), for the other formats. */
#define QWEN_K_FORMATS(DO, ...)						\
	DO(q2_k, QT_Q2_K, __VA_ARGS__)					\
	DO(q3_k, QT_Q3_K, __VA_ARGS__)					\
	DO(iq4_xs, QT_IQ4_XS, __VA_ARGS__)				\
	DO(tq1_0, QT_TQ1_0, __VA_ARGS__)				\
	DO(tq2_0, QT_TQ2_0, __VA_ARGS__)
#define QWEN_SMALL_GRID_FORMATS(DO, ...)				\
	DO(iq2_xxs, QT_IQ2_XXS, __VA_ARGS__)				\
	DO(iq2_xs, QT_IQ2_XS, __VA_ARGS__)				\
	DO(iq2_s, QT_IQ2_S, __VA_ARGS__)				\
	DO(iq3_xxs, QT_IQ3_XXS, __VA_ARGS__)				\
	DO(iq3_s, QT_IQ3_S, __VA_ARGS__)
#define QWEN_GRID_FORMATS(DO, ...)					\
	DO(iq1_s, QT_IQ1_S, __VA_ARGS__)				\
	DO(iq1_m, QT_IQ1_M, __VA_ARGS__)				\
	QWEN_SMALL_GRID_FORMATS(DO, __VA_ARGS__)
#define QWEN_BLOCK_FORMATS(DO, ...)					\
	DO(q4_0, QT_Q4_0, __VA_ARGS__)					\
	DO(q4_1, QT_Q4_1, __VA_ARGS__)					\
	DO(q5_0, QT_Q5_0, __VA_ARGS__)					\
	DO(q5_1, QT_Q5_1, __VA_ARGS__)					\
	DO(iq4_nl, QT_IQ4_NL, __VA_ARGS__)				\
	DO(mxfp4, QT_MXFP4, __VA_ARGS__)				\
	DO(nvfp4, QT_NVFP4, __VA_ARGS__)				\
	DO(q2_0, QT_Q2_0, __VA_ARGS__)					\
	DO(q1_0, QT_Q1_0, __VA_ARGS__)

/* The 16-bit float formats, which have products in bf16. */
#define QWEN_16_BIT_FLOATS(DO, ...)					\
	DO(f16, QT_F16, __VA_ARGS__)					\
	DO(bf16, QT_BF16, __VA_ARGS__)

/* All integer formats. */
#define QWEN_ALL_FORMATS(DO, ...)					\
	QWEN_FORMATS(DO, __VA_ARGS__)					\
	QWEN_K_FORMATS(DO, __VA_ARGS__)					\
	QWEN_GRID_FORMATS(DO, __VA_ARGS__)				\
	QWEN_BLOCK_FORMATS(DO, __VA_ARGS__)

#endif
