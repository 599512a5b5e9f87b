/* SPDX-License-Identifier: ISC */
/*
 * formats.h - the layout of formats of integers: one row each, from which
 * struct qwen_quant and the constants of kernels are made.
 */
#ifndef QWEN_QUANT_FORMATS_H
#define QWEN_QUANT_FORMATS_H

#include "gguf/type.h"

/*
 * Columns: name; offset of d in a block; 1 if it has minimums; the weights
 * under an integer scale, 16 or 32, or under a d if a block has no other scale;
 * 1 in that case (QWEN_QUANT_BLOCK); 1 if scales have a sign; a power of two
 * that kernels add to weights so that none is negative; the largest weight
 * after that; the factor of d, by which the f16 in the block is multiplied.
 */
#define QWEN_LAYOUTS(DO)						\
	DO(Q2_K, 80, 1, 16, 0, 0, 0, 3, 1.0f)				\
	DO(Q3_K, 108, 0, 16, 0, 1, 4, 7, 1.0f)				\
	DO(Q4_K, 0, 1, 32, 0, 0, 0, 15, 1.0f)				\
	DO(Q5_K, 0, 1, 32, 0, 0, 0, 31, 1.0f)				\
	DO(Q6_K, 208, 0, 16, 0, 1, 32, 63, 1.0f)			\
	DO(TQ1_0, 52, 0, 32, 0, 0, 1, 2, 1.0f)				\
	DO(TQ2_0, 64, 0, 32, 0, 0, 1, 3, 1.0f)				\
	DO(IQ4_XS, 0, 0, 32, 0, 1, 128, 241, 1.0f)			\
	DO(IQ1_S, 0, 0, 32, 0, 0, 16, 25, 0x1p-3f)			\
	DO(IQ1_M, 48, 0, 16, 0, 0, 16, 25, 0x1p-3f)			\
	DO(IQ2_XXS, 0, 0, 32, 0, 0, 64, 107, 0x1p-3f)			\
	DO(IQ2_XS, 0, 0, 16, 0, 0, 64, 107, 0x1p-3f)			\
	DO(IQ2_S, 0, 0, 16, 0, 0, 64, 107, 0x1p-3f)			\
	DO(IQ3_XXS, 0, 0, 32, 0, 0, 64, 126, 0x1p-2f)			\
	DO(IQ3_S, 0, 0, 32, 0, 0, 16, 31, 1.0f)				\
	DO(Q4_0, 0, 0, 32, 1, 0, 8, 15, 1.0f)				\
	DO(Q4_1, 0, 1, 32, 1, 0, 0, 15, 1.0f)				\
	DO(Q5_0, 0, 0, 32, 1, 0, 16, 31, 1.0f)				\
	DO(Q5_1, 0, 1, 32, 1, 0, 0, 31, 1.0f)				\
	DO(Q8_0, 0, 0, 32, 1, 0, 128, 255, 1.0f)			\
	DO(IQ4_NL, 0, 0, 32, 1, 0, 128, 241, 1.0f)			\
	DO(MXFP4, 0, 0, 32, 1, 0, 16, 28, 1.0f)				\
	DO(NVFP4, 0, 0, 16, 1, 0, 16, 28, 1.0f)				\
	DO(Q2_0, 0, 0, 64, 1, 0, 1, 3, 1.0f)				\
	DO(Q1_0, 0, 0, 128, 1, 0, 1, 2, 1.0f)

/* The columns that struct qwen_quant needs, as constants. */
enum {
#define QWEN_LAYOUT(name, d, min, span, block, ...)			\
	QT_D_AT_##name = d, QT_MIN_##name = min, QT_SPAN_##name = span,	\
	QT_BLOCK_##name = block,
	QWEN_LAYOUTS(QWEN_LAYOUT)
#undef QWEN_LAYOUT
};

/* Fields of a struct qwen_quant: of a format of floats, and of integers. */
#define QWEN_QUANT_FLOATS(name)						\
	.type = QT_##name, .block_len = QT_LEN_##name,			\
	.block_bytes = QT_BYTES_##name, .kind = QWEN_QUANT_FLOAT
#define QWEN_QUANT_INTEGERS(name)					\
	.type = QT_##name, .block_len = QT_LEN_##name,			\
	.block_bytes = QT_BYTES_##name,					\
	.kind = QT_BLOCK_##name ? QWEN_QUANT_BLOCK : QWEN_QUANT_SUPER,	\
	.d_at = QT_D_AT_##name, .has_min = QT_MIN_##name,		\
	.span = QT_SPAN_##name

#endif
