/* SPDX-License-Identifier: ISC */
/* attend_head.h - a head of a query, key or value before attention. */
#ifndef QWEN_CUDA_ATTEND_HEAD_H
#define QWEN_CUDA_ATTEND_HEAD_H

#include "engine/cuda/kernel/attend.h"
#include "engine/cuda/kernel/softmax.h"

DEV struct qwen_kv_shape
shape_of(const struct dev_attend *a)
{
	return (struct qwen_kv_shape){ .n_head = a->n_head_kv, .d = a->d,
	    .k = (enum qwen_kv)a->k, .v = (enum qwen_kv)a->v };
}

DEV struct dev_kv
cache_at(const struct dev_attend *a, u32 t, u32 slot, u32 head, int is_v)
{
	struct qwen_kv_shape s = shape_of(a);

	return kv_at(a->pass.share + a->pass.row[t].share, a->block, &s, slot,
	    head, is_v);
}

/* ---- a head's numbers, in the block's memory */

/* The norm of a warp's head. */
DEV void
norm_head(SHARED f32 *x, const GLOBAL f32 *w, u32 d, f32 eps)
{
	u32 lane = tid() & 31, i;
	f32 s = 0.0f, r;

	for (i = lane & 15; i < d; i += 16)
		s = rn_fma(x[i], x[i], s);
	r = 1.0f / rn_sqrt(add_parts(s) / (f32)d + eps);
	for (i = lane; i < d; i += 32)
		x[i] = x[i] * r * w[i];
	warp_bar();
}

/* RoPE of a warp's head. */
DEV void
turn_head(SHARED f32 *x, const GLOBAL f32x2 *by, u32 half)
{
	u32 i;

	for (i = tid() & 31; i < half; i += 32) {
		f32 u = x[i], w = x[half + i], c = by[i][0], s = by[i][1];

		x[i] = rn_fma(u, c, -(w * s));
		x[half + i] = rn_fma(u, s, w * c);
	}
	warp_bar();
}

#endif
