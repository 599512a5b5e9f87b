/* SPDX-License-Identifier: ISC */
/*
 * quant.h - number formats of tensors: block layout and meaning.
 *
 * A format is one file that exports a struct qwen_quant named after it; the
 * Makefile collects them.  Unpacking turns a group of up to 256 weights of a
 * row into integers and scales.  Dequantisation, the scalar dot product (which
 * defines the arithmetic) and the products of formats without their own kernel
 * all use this form.
 */
#ifndef QWEN_QUANT_H
#define QWEN_QUANT_H

#include <stddef.h>
#include <stdint.h>

#include "gguf/type.h"
#include "qwen.h"

#define QWEN_GROUP 256		/* numbers of weights and activations that are
				   handled together */

enum qwen_quant_kind {
	QWEN_QUANT_FLOAT,	/* no integers */
	QWEN_QUANT_SUPER,	/* 256 weights; integer scales share one d */
	QWEN_QUANT_BLOCK,	/* fewer weights; each block has its own d */
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
	/* as in ggml's table (gguf.h), copied here for multiplying */
	unsigned		 block_len;
	unsigned		 block_bytes;
	enum qwen_quant_kind	 kind;
	unsigned		 span;		/* BLOCK: weights that share a d
						   (>= 16) */
	int			 has_min;	/* m (and min) are used */
	size_t			 d_at;		/* offset of d in a block; m is
						   2 bytes further, another d 1
						   byte */
	/* FLOAT: reads a weight; else reads d or m */
	float	(*number)(const unsigned char *p);
	/*
	 * unpacks a block's weights; SUPER: also its scales, and minimums if it
	 * has them
	 */
	void	(*unpack)(const unsigned char *block, int8_t *w,
		    struct qwen_unpacked *u);
};

/* Returns the format, or NULL if the library cannot compute with it. */
const struct qwen_quant *qwen_quant_find(uint32_t type);

/*
 * Unpacks up to 256 weights, in whole blocks, to integers and scales; not for
 * FLOAT.
 */
void qwen_quant_unpack(const struct qwen_quant *q, const unsigned char *src,
    size_t n, struct qwen_unpacked *u);

/* Returns 1 if the scales of this block (FLOAT: this number) are finite. */
int qwen_quant_finite(const struct qwen_quant *q, const unsigned char *block);

/*
 * Converts n values from src, in whole blocks, to f32: the definition of the
 * format.
 */
void qwen_quant_values(const struct qwen_quant *q, const unsigned char *src,
    size_t n, float *dst);

/*
 * Returns the bytes of a row of n elements; 0 if n is no whole number of blocks
 * or too large.
 */
size_t qwen_quant_row_bytes(uint32_t type, uint64_t n);

/*
 * Looks for scales (in float types: values) that are NaN or infinite in n
 * elements.  Returns the index of the first block that has one, or -1.
 */
int64_t qwen_quant_find_nonfinite(uint32_t type, const void *src, size_t n);

#endif
