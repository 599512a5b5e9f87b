/* SPDX-License-Identifier: ISC */
/*
 * matmul.h - products of weights and activations, and packed activations.
 *
 * Sums of 8-bit products are exact integers, so their order is free.  Groups of
 * 256 columns are added to a row's sum in ascending order.  A group with one d is
 * one step of fma, times that d and the d of the activations.  A group with
 * several is a step for each d, ascending, from 0, and then one with the d of the
 * activations.  Minimums are added after that, likewise (matmul_scalar.c is the
 * definition).  In bf16, 32 columns are two chains, of even and of odd columns,
 * ascending; their sum is added (generic/matmul_bf16_scalar.c).
 */
#ifndef QWEN_KERNEL_MATMUL_H
#define QWEN_KERNEL_MATMUL_H

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"
#include "engine/quant/operand.h"

/*
 * 256 activations in 8 bits: x[i] ~ d * a[i/32] * q[i].  A row of n values is
 * (n + 255) / 256 of these; missing values in the last are zero.
 */
struct qwen_q8 {
	int8_t	q[QWEN_GROUP];	/* -127 .. 127 */
	int16_t	asum16[16];	/* a[i/2] * sum of 16 q */
	int16_t	asum[8];	/* a[i] * sum of 32 q */
	int16_t	a[8];		/* 1 .. 7 */
	int32_t	off6[16];	/* -32 * sum of 16 q */
	int32_t	off8[8];	/* -128 * sum of 32 q */
	float	d;		/* NaN if an activation is NaN or infinite */
} __attribute__((aligned(64)));

#define QWEN_Q8_GROUPS(n) (((n) + QWEN_GROUP - 1) / QWEN_GROUP)

/*
 * In bf16 an activation below QWEN_BF16_LEAST counts as zero, and so does a
 * BF16 weight below QWEN_BF16_WEIGHT_LEAST.  So activations are multiples of
 * 2^-67, weights of 2^-59, and sums of their products of 2^-126.  None of them
 * is subnormal, and so it does not matter whether an instruction flushes
 * subnormal numbers to zero.
 */
#define QWEN_BF16_LEAST 0x1p-60f
#define QWEN_BF16_WEIGHT_LEAST 0x1p-52f

/* Returns a weight of F16 or BF16, rounded to bf16 as in products. */
static inline uint16_t
qwen_weight_bf16(const struct qwen_quant *q, float w)
{
	if (q->type == QT_BF16 && w < QWEN_BF16_WEIGHT_LEAST &&
	    w > -QWEN_BF16_WEIGHT_LEAST)
		return 0;
	return qwen_f32_bf16(w);
}

struct qwen_packing;

/*
 * A product: y[t][r] = sum over i of w[r][i] * x[t][i], for r0 <= r < r1, t <
 * n_tok.
 */
struct qwen_matmul {
	const unsigned char	*w;	/* row 0 */
	size_t			 row_bytes;
	size_t			 n_in;
	const struct qwen_quant	*quant;	/* format of w */
	const void *const	*x;	/* per token: float[n_in]; struct
					   qwen_q8[]; or uint16_t[n_in], bf16:
					   see qwen_operand_of() */
	float *const		*y;	/* per token; indexed by r */
	size_t			 n_tok;
	int			 plain;	/* in all struct qwen_q8, every a is
					   1 */
	size_t			 r0, r1;
	const unsigned char	*next;	/* rows that will be multiplied next, as
					   a cache hint; or NULL */
	const struct qwen_packing	*packing;	/* layout of packed; or
							   NULL */
	const void		*packed;	/* x packed for a variant */
};

/*
 * Some variants for many tokens need the tokens transposed, or widened, in
 * tiles of 16.  A packed tile serves all rows of all matrices. pack writes n
 * tokens of n_groups groups of 256 as n_groups * bytes to an address that is a
 * multiple of 64.  Missing tokens of a tile are zero, or unused.  Variants
 * whose packing has the same kind share the packed tokens.
 */
#define QWEN_PACK_TOKENS 16
enum qwen_pack_kind {
	QWEN_PACK_PLANES, QWEN_PACK_BLOCKS, QWEN_PACK_PAIRS, QWEN_PACK_QUADS,
	QWEN_PACK_HALVES, QWEN_PACK_KINDS
};
struct qwen_packing {
	enum qwen_pack_kind	kind;
	size_t			bytes;	/* of a group of a tile */
	void	(*pack)(void *to, const void *const *x, size_t n,
		    size_t n_groups);
};

#endif
