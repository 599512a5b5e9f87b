/* SPDX-License-Identifier: ISC */
/*
 * delta.h - the gated delta rule.  Sums over rows of S are chains of fma,
 * ascending, for each column by itself; tokens go one after the other.
 */
#ifndef QWEN_KERNEL_DELTA_H
#define QWEN_KERNEL_DELTA_H

#include <stddef.h>

/*
 * The gated delta rule over n_tok tokens, one value head, columns c0 .. c1-1
 * (a multiple of 16 wide).  For each token
 *	S1 = g S;  u = b (v - S1' k);  S = S1 + k u';  o = S' q.
 * Strides are in floats between tokens.
 *
 * S may lack tokens: they are in before, which has its own rows, and earlier
 * ones in before->before; no deeper.  Their s is ignored, and their o is
 * overwritten.  The n_ahead rows after the n_tok do not change S: their o is
 * computed as if they followed.
 */
struct qwen_delta {
	float		*s;		/* [dk][dv] */
	size_t		 dk, dv;
	size_t		 c0, c1;
	size_t		 n_tok, n_ahead;
	const struct qwen_delta	*before;	/* or NULL */
	const float	*q, *k;		/* per token: [dk] */
	size_t		 qk_stride;
	const float	*v;		/* per token: [dv] */
	size_t		 v_stride;
	const float	*g, *b;		/* one number per token */
	size_t		 gb_stride;
	float		*o;		/* per token: [dv] */
	size_t		 o_stride;
	const float	*next;		/* the columns that come next, [dk] rows
					   dv apart, as a cache hint; or NULL */
};

#endif
