/* SPDX-License-Identifier: ISC */
/* attend_join.h - results of chunks become one, in the order of the chunks. */
#ifndef QWEN_CUDA_ATTEND_JOIN_H
#define QWEN_CUDA_ATTEND_JOIN_H

#include "engine/cuda/kernel/attend.h"
#include "engine/cuda/kernel/softmax.h"

/* Gates y; a gate that is infinite gives NaN. */
DEV f32
gated(f32 y, f32 gate)
{
	return rn_fma(gate, 0.0f, y / (1.0f + dev_exp(-gate)));
}

struct join {
	SHARED f32x2	*e;	/* [heads][DEV_JOIN_SPAN] factors of what is merged so
				   far, and of a chunk */
	SHARED f32	*l;	/* [heads][DEV_JOIN_SPAN] sums of weights */
	SHARED f32	*top;	/* [heads] largest scores so far */
	SHARED f32	*x;	/* the numbers */
};

/*
 * Sets the factors of a head's next n chunks, at p, by a warp.  Before the first
 * chunk the largest score is -infinity, and all sums are 0.
 */
DEV void
join_factors(const struct join *j, const GLOBAL f32 *p, u32 head, u32 d, u32 n)
{
	const u32 lane = tid() % 32, at = head * DEV_JOIN_SPAN + lane;
	f32 m, most, before;
	u32 i;

	p += (u64)lane * DEV_PART(d) + d;
	m = lane < n ? p[0] : LEAST;
	most = larger(j->top[head], m);
	UNROLL for (i = 1; i < 32; i *= 2) {
		before = shfl_f32(most, lane - i);
		most = lane >= i ? larger(before, most) : most;
	}
	before = shfl_f32(most, lane - 1);
	before = lane > 0 ? before : j->top[head];
	warp_bar();
	if (lane == 31)
		j->top[head] = most;
	j->e[at] = (f32x2){ dev_exp(before - most), dev_exp(m - most) };
	j->l[at] = lane < n ? p[1] : 0.0f;
}

/* Adds a chunk's number x to o, and its sum of weights to l. */
DEV void
add_chunk(f32 *o, f32 *l, f32 x, const struct join *j, u32 i)
{
	f32x2 e = j->e[i];

	*o = rn_fma(*o, e[0], x * e[1]);
	*l = rn_fma(*l, e[0], j->l[i] * e[1]);
}

#endif
