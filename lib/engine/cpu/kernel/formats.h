/* SPDX-License-Identifier: ISC */
/*
 * formats.h - properties of the formats as constants, for kernels.  The type is
 * a constant wherever they are used, so each format gets its own code from one
 * source.
 */
#ifndef QWEN_KERNEL_FORMATS_H
#define QWEN_KERNEL_FORMATS_H

#include "engine/cpu/kernel/kernel.h"
#include "engine/quant/formats.h"

/* A row of quant/formats.h. */
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
#define QWEN_LAYOUT(name, ...)						\
	[QT_##name] = { QT_LEN_##name, QT_BYTES_##name, __VA_ARGS__ },
	QWEN_LAYOUTS(QWEN_LAYOUT)
#undef QWEN_LAYOUT
};

/*
 * DO(name, type, ...) for each format that has its own variants: the most used
 * ones, other k-quants, those with look-up grids, and those with a scale for each
 * few weights.
 */
#define QWEN_COMMON_K_FORMATS(DO, ...)					\
	DO(q4_k, QT_Q4_K, __VA_ARGS__)					\
	DO(q5_k, QT_Q5_K, __VA_ARGS__)					\
	DO(q6_k, QT_Q6_K, __VA_ARGS__)
#define QWEN_FORMATS(DO, ...)						\
	QWEN_COMMON_K_FORMATS(DO, __VA_ARGS__)				\
	DO(q8_0, QT_Q8_0, __VA_ARGS__)
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
#define QWEN_OLD_FORMATS(DO, ...)					\
	DO(q4_0, QT_Q4_0, __VA_ARGS__)					\
	DO(q4_1, QT_Q4_1, __VA_ARGS__)					\
	DO(q5_0, QT_Q5_0, __VA_ARGS__)					\
	DO(q5_1, QT_Q5_1, __VA_ARGS__)					\
	DO(mxfp4, QT_MXFP4, __VA_ARGS__)
#define QWEN_BLOCK_FORMATS(DO, ...)					\
	QWEN_OLD_FORMATS(DO, __VA_ARGS__)				\
	DO(iq4_nl, QT_IQ4_NL, __VA_ARGS__)				\
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
