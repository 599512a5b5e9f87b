/* SPDX-License-Identifier: ISC */
/*
 * group.h - 256 activations as integers: "Activations for quantised weights" of
 * qwen-numerics(7).
 */
#ifndef QWEN_CUDA_GROUP_H
#define QWEN_CUDA_GROUP_H

#include "engine/cuda/kernel/dev.h"

/*
 * Number i is about d * a[i / 32] * q[i].  Sums are of a q, as a low byte and a
 * signed high byte: of 32 numbers each, and of 16.  Numbers that a row lacks are
 * 0.  In numerics version 4, a row has its groups twice: those of the second term
 * follow those of the first.
 */
struct dev_group {
	s8	q[256];
	u8	a[8];
	u8	low[8];
	s8	high[8];
	f32	d;
	u32	pad;
	u8	low16[16];
	s8	high16[16];
};

/* Returns the largest of n neighbouring lanes, a power of two. */
DEV u32
most_of_lanes(u32 v, u32 from, u32 n)
{
	u32 i, o;

	for (i = from; i < n; i *= 2) {
		o = (u32)shfl_xor((s32)v, i);
		v = o > v ? o : v;
	}
	return v;
}

/* Writes what a lane has: eight numbers q, with their a. */
DEV void
put_numbers(GLOBAL struct dev_group *g, const s32 *q, s32 a)
{
	const u32 lane = tid() & 31;
	u32 pack[2] = { 0, 0 }, i;
	s32 sum = 0;

	UNROLL for (i = 0; i < 8; i++) {
		sum += q[i];
		pack[i / 4] |= (u32)(q[i] & 255) << 8 * (i % 4);
	}
	((GLOBAL u32x2 *)g->q)[lane] = (u32x2){ pack[0], pack[1] };
	sum = a * (sum + shfl_xor(sum, 1));
	if (lane % 2 == 0) {
		g->low16[lane / 2] = (u8)sum;
		g->high16[lane / 2] = (s8)(sum >> 8);
	}
	sum += shfl_xor(sum, 2);
	if (lane % 4 == 0) {
		g->a[lane / 4] = (u8)a;
		g->low[lane / 4] = (u8)sum;
		g->high[lane / 4] = (s8)(sum >> 8);
	}
}

/*
 * A warp makes a group, of which lane i has the numbers 8 i .. 8 i + 7 in x.  top
 * is the largest a.  Leaves in x what is lost.
 */
DEV void
make_group(GLOBAL struct dev_group *g, f32 *x, f32 top)
{
	u32 mine = 0, all, i;
	s32 a = 1, q[8];
	f32 most, d, c, k = 0.0f, y;

	UNROLL for (i = 0; i < 8; i++) {
		u32 bits = f32_bits(x[i]) & 0x7fffffff;

		mine = bits > mine ? bits : mine;
	}
	mine = most_of_lanes(mine, 1, 4);
	all = most_of_lanes(mine, 4, 32);
	most = bits_f32(all);
	d = all >= 0x7f800000 ? bits_f32(0x7fc00000) :
	    most < 0x1p-100f ? 0.0f : most / (127.0f * top);
	if (all < 0x7f800000 && most >= 0x1p-100f) {
		c = up_int(bits_f32(mine) * (top / most));
		a = c < 1.0f ? 1 : (s32)(c < top ? c : top);
		k = 127.0f * top / most / (f32)a;
	}
	UNROLL for (i = 0; i < 8; i++) {
		y = k != 0.0f ? x[i] * k : 0.0f;
		y = y > -127.0f ? y : -127.0f;
		q[i] = (s32)rn_int(y < 127.0f ? y : 127.0f);
		x[i] = rn_fma(-d, (f32)q[i], x[i]);
	}
	put_numbers(g, q, a);
	if (tid() % 32 == 0) {
		g->d = d;
		g->pad = 0;
	}
}

/* Makes group g of a row that has n: one term, or two. */
DEV void
make_groups(GLOBAL struct dev_group *row, u32 g, u32 n, f32 *x, u32 two)
{
	make_group(row + g, x, two ? 1.0f : 7.0f);
	if (two)
		make_group(row + n + g, x, 1.0f);
}

#endif
