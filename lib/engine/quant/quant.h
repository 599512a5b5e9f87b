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
	QT_Q5_K = 13, QT_Q6_K = 14, QT_IQ4_NL = 20, QT_IQ4_XS = 23,
	QT_BF16 = 30, QT_N = 64
};

enum qwen_quant_kind {
	QWEN_QUANT_FLOAT,	/* no integers */
	QWEN_QUANT_SUPER,	/* 256 weights, integer scales under one d */
	QWEN_QUANT_32,		/* 32 weights under a d of their own */
};

struct qwen_unpacked {
	int8_t	w[QWEN_GROUP];
	/* SUPER: weight i is d * scale[i/16] * w[i] - dmin * min[i/16] */
	int16_t	scale[16];
	int16_t	min[16];
	float	d, dmin;
	/* 32: weight i is d32[i/32] * w[i] + m32[i/32] */
	float	d32[8];
	float	m32[8];
};

struct qwen_quant {
	uint32_t		 type;
	/* as ggml's table has them (gguf.h), for those who multiply */
	unsigned		 block_len;
	unsigned		 block_bytes;
	enum qwen_quant_kind	 kind;
	int			 has_min;	/* dmin/min or m32 are used */
	size_t			 d_at;		/* where a block has d or d32;
						   dmin or m32 is 2 further */
	/*
	 * A power of two of which all values are whole multiples: the least
	 * scale, times the least weight if that is a fraction.  Not of FLOAT.
	 */
	float			 grain;
	/* FLOAT: a weight; else d or what comes after it */
	float	(*number)(const unsigned char *p);
	/* a block's weights; SUPER: its scales too, and minimums if it has */
	void	(*unpack)(const unsigned char *block, int8_t *w,
		    struct qwen_unpacked *u);
};

#define QWEN_F16_GRAIN 0x1p-24f	/* of f16 itself: its least number */

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
