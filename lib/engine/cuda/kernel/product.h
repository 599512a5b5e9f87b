/* SPDX-License-Identifier: ISC */
/* product.h - arguments of products, and layouts of weights on the card. */
#ifndef QWEN_CUDA_PRODUCT_H
#define QWEN_CUDA_PRODUCT_H

#include "engine/cuda/kernel/dev.h"
#include "engine/cuda/kernel/group.h"

/*
 * 256 weights of any format with one d for all: weight i is
 * d * scale[i / 16] * w[i] - m * min[i / 16].
 */
struct dev_super {
	s8	w[256];
	s8	scale[16];
	u8	min[16];
	f32	d, m;
	u32	pad[2];
};

/*
 * 256 weights of formats with a d for each `span' weights: s8 w[256], then f32
 * d[256 / span], then as many m if the format has them, to a multiple of 16
 * bytes.  Weight i is d[i / span] * w[i] + m[i / span].
 */
#define DEV_BLOCK_BYTES(span, has_min)					\
	(256 + (256 / (span) * (1 + (has_min)) * 4 + 15) / 16 * 16)

/*
 * Q6_K: bytes of blocks up to their d, then d of all blocks of a row, as f16, to a
 * multiple of 16 bytes.  Q8_0, and Q5_0 likewise: s8 w[256], then eight d as f16;
 * a last block is filled with zeros.  Q4_K and Q5_K are as in a file.
 */
#define DEV_Q6_K_BYTES 208
#define DEV_Q8_0_BYTES 272

/*
 * Formats of up to 16 values have a nibble for each of 256 weights, the first one
 * lowest: the number of its value.  Then
 *	Q4 (Q4_0, IQ4_NL, MXFP4): eight d, 16 bits each
 *	IQ4_XS: s8 scale[8], d as f16, to a multiple of 16 bytes
 *	Q3_K: s8 scale[16]; a row's d are after its blocks, as those of Q6_K
 *	Q2_K: s8 scale[16], u8 min[16], f32 d and m, to a multiple of 16 bytes
 */
#define DEV_NIBBLE_BYTES 144
#define DEV_Q2_K_BYTES 176

/* Bytes of a block of a layout whose d are after a row's blocks. */
#define BLOCK_BYTES(f) ((f) == F_Q6_K ? DEV_Q6_K_BYTES : DEV_NIBBLE_BYTES)

/* Layouts of integers, and formats of floats. */
enum dev_format {
	F_Q4_K, F_Q5_K, F_Q6_K, F_Q8_0, F_Q4, F_IQ4_XS, F_Q3_K, F_Q2_K, F_SUPER,
	F_BLOCK
};
enum { DEV_F32, DEV_F16, DEV_BF16 };

/*
 * The kernel for floats has FLOAT_ROWS rows of weights and FLOAT_COLUMNS of x, of
 * which FLOAT_PART numbers are copied at once, FLOAT_STAGES times ahead.
 */
enum {
	FLOAT_ROWS = 16, FLOAT_COLUMNS = 16, FLOAT_THREADS = 64,
	FLOAT_PART = 128, FLOAT_STAGES = 4,
	FLOAT_STRIDE = FLOAT_PART * 4 + 64,	/* bytes of a row or column */
	FLOAT_STAGE = (FLOAT_ROWS + FLOAT_COLUMNS) * FLOAT_STRIDE
};

/*
 * A product: rows of x, or of groups, by a matrix; or pairs of a row and a
 * matrix: struct qwen_cuda_pairs.
 */
struct dev_product {
	const GLOBAL u8		*w;
	const GLOBAL f32	*scale, *bias;	/* or NULL */
	const GLOBAL f32	*x;
	const GLOBAL u8		*groups;
	GLOBAL f32		*y;
	const GLOBAL u32	*at, *first;	/* or NULL: no pairs */
	const GLOBAL u32	*matrix;	/* of each pair; or NULL */
	u64			 row_bytes, matrix_bytes, group_bytes;
	u64			 x_stride, y_stride;
	u32			 n_in, n_out;
	u32			 n;		/* rows, or pairs */
	u32			 n_matrix, per;
	u32			 rows;		/* of a warp, for one row of x */
	u32			 two;		/* terms of the activations */
	u32			 span, has_min;	/* of a general layout */
	u32			 kind;		/* of floats, and of d in Q4 */
	u32			 values[4];	/* s8 [16], of nibbles */
};

/* Four weights, whose values have the numbers in the lower nibbles of n. */
DEV u32
nibble_values(const u32 *v, u32 n)
{
	const u32 in = n & 0x7777, half = (n >> 1 & 0x4444) | 0x3210;

	return pick(pick(v[0], v[1], in), pick(v[2], v[3], in), half);
}

/* A d of 16 bits. */
DEV f32
d_of(const int f, const struct dev_product *a, u32 bits)
{
	return f == F_Q4 && a->kind == DEV_BF16 ? bits_f32(bits << 16) :
	    f16_f32((u16)bits);
}

/* Number k of a row of floats. */
DEV f32
float_weight(const GLOBAL u8 *w, u32 k, const u32 kind)
{
	return kind == DEV_F32 ? ((const GLOBAL f32 *)w)[k] :
	    kind == DEV_F16 ? f16_f32(((const GLOBAL u16 *)w)[k]) :
	    bf16_f32(((const GLOBAL u16 *)w)[k]);
}

/* Writes a product with what belongs to its matrix. */
DEV void
put_product(const struct dev_product *a, u32 matrix, u32 row, u32 r, f32 y)
{
	if (a->scale != (void *)0)
		y = y * a->scale[matrix];
	if (a->bias != (void *)0)
		y = y + a->bias[r];
	a->y[row * a->y_stride + r] = y;
}

#endif
