/* SPDX-License-Identifier: ISC */
/*
 * quant.h - number formats of tensors: block layout and meaning.
 *
 * A format is one file that exports a struct qwen_quant named after it; the
 * Makefile collects them.  Unpacking gives a group of up to 256 weights of a
 * row as integers with their scales: the one form from which dequantisation,
 * the scalar dot product (which defines the arithmetic) and the path for
 * formats without a kernel of their own are derived.
 */
#ifndef QWEN_QUANT_H
#define QWEN_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"

#define QWEN_GROUP 256		/* weights and activations handled together */

/* ggml type numbers that code names. */
enum {
	QT_F32 = 0, QT_F16 = 1, QT_Q4_0 = 2, QT_Q4_1 = 3, QT_Q5_0 = 6,
	QT_Q5_1 = 7, QT_Q8_0 = 8, QT_Q2_K = 10, QT_Q3_K = 11, QT_Q4_K = 12,
	QT_Q5_K = 13, QT_Q6_K = 14, QT_IQ2_XXS = 16, QT_IQ2_XS = 17,
	QT_IQ3_XXS = 18, QT_IQ1_S = 19, QT_IQ4_NL = 20, QT_IQ3_S = 21,
	QT_IQ2_S = 22, QT_IQ4_XS = 23, QT_IQ1_M = 29, QT_BF16 = 30,
	QT_TQ1_0 = 34, QT_TQ2_0 = 35, QT_MXFP4 = 39, QT_NVFP4 = 40,
	QT_Q1_0 = 41, QT_Q2_0 = 42, QT_N = 64
};

enum qwen_quant_kind {
	QWEN_QUANT_FLOAT,	/* no integers */
	QWEN_QUANT_SUPER,	/* 256 weights, integer scales under one d */
	QWEN_QUANT_BLOCK,	/* fewer weights, under a d of their own */
};

struct qwen_unpacked {
	int8_t	w[QWEN_GROUP];
	/*
	 * SUPER: weight i is d[0] * scale[i/16] * w[i] - m[0] * min[i/16]
	 * BLOCK: weight i is d[i/span] * w[i] + m[i/span]
	 */
	int16_t	scale[16];
	int16_t	min[16];
	float	d[16];
	float	m[16];
};

struct qwen_quant {
	uint32_t		 type;
	/* as ggml's table has them (gguf.h), for those who multiply */
	unsigned		 block_len;
	unsigned		 block_bytes;
	enum qwen_quant_kind	 kind;
	unsigned		 span;		/* BLOCK: weights under a d, 16
						   or more */
	int			 has_min;	/* m (and min) are used */
	size_t			 d_at;		/* where a block has d; m is 2
						   further, another d 1 */
	/* FLOAT: a weight; else d or m */
	float	(*number)(const unsigned char *p);
	/* a block's weights; SUPER: its scales too, and minimums if it has */
	void	(*unpack)(const unsigned char *block, int8_t *w,
		    struct qwen_unpacked *u);
};

/* The format, or NULL if the library cannot compute with it. */
const struct qwen_quant *qwen_quant_find(uint32_t type);

/* Up to 256 weights of whole blocks as integers and scales; not of FLOAT. */
void qwen_quant_unpack(const struct qwen_quant *q, const unsigned char *src,
    size_t n, struct qwen_unpacked *u);

/* Are the scales of this block (or is this number) finite? */
int qwen_quant_finite(const struct qwen_quant *q, const unsigned char *block);

/* n values from src, whole blocks, as f32: the format's definition. */
void qwen_quant_values(const struct qwen_quant *q, const unsigned char *src,
    size_t n, float *dst);

/* Bytes of a row of n elements; 0 if n is not whole blocks or too large. */
size_t qwen_quant_row_bytes(uint32_t type, uint64_t n);

/*
 * Look for scales that are NaN or infinite (or, in float types, such values)
 * in n elements.  Returns the index of the first block that has one, or -1.
 */
int64_t qwen_quant_find_nonfinite(uint32_t type, const void *src, size_t n);

#endif
