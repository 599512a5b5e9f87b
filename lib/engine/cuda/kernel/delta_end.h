/* SPDX-License-Identifier: ISC */
/* delta_end.h - after the delta rule: a gated norm, and the inputs that stay. */
#ifndef QWEN_CUDA_DELTA_END_H
#define QWEN_CUDA_DELTA_END_H

#include "engine/cuda/kernel/deltanet_row.h"
#include "engine/cuda/kernel/group.h"

/*
 * The RMS norm of a head of o, of 128 numbers, times silu(z), by 16 lanes; lane i
 * has numbers i, i + 16, ... in x.
 */
DEV void
norm_head_128(const struct dev_delta *a, u32 row, u32 head, f32 *x)
{
	u32 lane = tid() & 15, i;
	const GLOBAL f32 *o = a->o + (u64)row * a->o_stride + head * 128 +
	    lane;
	const GLOBAL f32 *z = a->in + (u64)row * a->in_stride + n_channel(a) +
	    head * 128 + lane;
	f32 part = 0.0f, r, y[8], w[8];

	UNROLL for (i = 0; i < 8; i++) {
		x[i] = o[i * 16];
		y[i] = z[i * 16];
		w[i] = a->norm[i * 16 + lane];
		part = rn_fma(x[i], x[i], part);
	}
	part = add_parts(part);
	r = 1.0f / rn_sqrt(part / 128.0f + a->eps);
	UNROLL for (i = 0; i < 8; i++)
		x[i] = x[i] * r * w[i] * dev_silu(y[i]);
}

/*
 * A warp norms group g of a row, two heads, and makes integers of it; `all' is room
 * for 256 numbers.
 */
DEV void
norm_group(const struct dev_delta *a, u32 row, u32 g, SHARED f32 *all)
{
	u32 lane = tid() & 31, head = 2 * g + lane / 16, i;
	int is_there = head < a->n_head_v;
	GLOBAL f32 *o = a->o + (u64)row * a->o_stride + head * 128 + lane % 16;
	f32 x[8];

	norm_head_128(a, row, is_there ? head : 2 * g, x);
	UNROLL for (i = 0; i < 8; i++) {
		all[lane / 16 * 128 + i * 16 + lane % 16] =
		    is_there ? x[i] : 0.0f;
		if (is_there)
			o[i * 16] = x[i];
	}
	if (a->groups == (void *)0)
		return;
	warp_bar();
	UNROLL for (i = 0; i < 8; i++)
		x[i] = all[lane * 8 + i];
	make_groups((GLOBAL struct dev_group *)(a->groups +
	    row * a->group_bytes), g, (a->n_head_v + 1) / 2, x, a->two);
}

/* Moves the inputs of the convolution on to the last token that is sure. */
DEV void
move_inputs(const struct dev_delta *a, const struct dev_share *s, u32 c)
{
	GLOBAL f32 *to = (GLOBAL f32 *)(s->state + a->state_conv) + c;
	u32 j, nc = n_channel(a);
	s32 t = (s32)s->n_sure - 1;
	struct inputs in;
	f32 x[DELTA_TAPS];

	if (a->taps != DELTA_TAPS) {
		for (j = 1; j < a->taps; j++)
			to[(u64)(j - 1) * nc] = input_at(a, s, t + 1 +
			    (s32)(j - a->taps))[c];
		return;
	}
	in = inputs_at(a, s, t);
	UNROLL for (j = 1; j < DELTA_TAPS; j++)
		x[j] = in.tap[j][c];
	UNROLL for (j = 1; j < DELTA_TAPS; j++)
		to[(u64)(j - 1) * nc] = x[j];
}

#endif
