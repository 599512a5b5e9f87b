/* SPDX-License-Identifier: ISC */
/* norm.c - rows before a product: RMS norm, silu(gate) * up, and integers. */
#include "engine/cuda/kernel/math.h"
#include "engine/cuda/kernel/norm.h"

/* Sixteen partial sums of squares in 16 lanes, then the tree; a warp comes. */
DEV f32
sum_of_squares(const SHARED f32 *x, u32 n)
{
	f32 s = 0.0f;
	u32 i;

#ifdef __NVPTX__
#pragma unroll 16
#endif
	for (i = tid() & 15; i < n; i += 16)
		s = rn_fma(x[i], x[i], s);
	UNROLL for (i = 8; i > 0; i /= 2)
		s = s + shfl_xor_f32(s, i);
	return s;
}

/* Does somebody read row t after the last mixer? */
DEV int
is_wanted(const struct dev_pass *p, u32 t)
{
	const GLOBAL struct dev_share *s = p->share + p->row[t].share;

	return t - s->first >= s->want;
}

/*
 * Numbers at .. at + 3 of a row of n; those that it lacks are 0.  whole: n is a
 * multiple of 4, and the row begins at 16 bytes.
 */
DEV f32x4
load4(const GLOBAL f32 *row, u32 at, u32 n, int whole)
{
	if (at >= n)
		return (f32x4){ 0.0f, 0.0f, 0.0f, 0.0f };
	if (whole)
		return *(const GLOBAL f32x4 *)(row + at);
	return (f32x4){ row[at], at + 1 < n ? row[at + 1] : 0.0f,
	    at + 2 < n ? row[at + 2] : 0.0f, at + 3 < n ? row[at + 3] : 0.0f };
}

DEV void
store4(GLOBAL f32 *row, u32 at, u32 n, int whole, f32x4 v)
{
	u32 i;

	if (whole && at < n) {
		*(GLOBAL f32x4 *)(row + at) = v;
		return;
	}
	UNROLL for (i = 0; i < 4; i++)
		if (at + i < n)
			row[at + i] = v[i];
}

/* Makes group g of a row's nb from eight numbers a lane. */
DEV void
put_groups(GLOBAL u8 *row, u32 g, u32 nb, f32x4 a, f32x4 b, u32 two)
{
	f32 v[8] = { a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3] };

	make_groups((GLOBAL struct dev_group *)row, g, nb, v, two);
}

/* A block a row, which has up to 4 NORM_FOURS numbers a thread. */
KERNEL(norm_rows, struct dev_norm)
{
	SHARED f32 *x = (SHARED f32 *)SMEM, *factor = x + NORM_SHARED(a.n) - 4;
	const u32 t = tid(), lane = t & 31, row = bid(), nb = (a.n + 255) / 256;
	const int whole = ((a.n | a.x_stride | a.out_stride | a.xn_stride) &
	    3) == 0;
	GLOBAL f32 *from = a.x + row * a.x_stride;
	f32x4 v[NORM_FOURS], w[NORM_FOURS];
	u32 i, g, at;
	f32 r;

	UNROLL for (i = 0; i < NORM_FOURS; i++) {
		at = 4 * (t + i * n_threads());
		v[i] = load4(from, at, a.n, whole);
		w[i] = load4(a.weights, at, a.n, whole);
	}
	if (a.out != (void *)0) {
		UNROLL for (i = 0; i < NORM_FOURS; i++)
			v[i] = v[i] + load4(a.out + row * a.out_stride,
			    4 * (t + i * n_threads()), a.n, whole);
		UNROLL for (i = 0; i < NORM_FOURS; i++)
			store4(from, 4 * (t + i * n_threads()), a.n, whole,
			    v[i]);
	}
	UNROLL for (i = 0; i < NORM_FOURS; i++) {
		at = 4 * (t + i * n_threads());
		if (at < nb * 256)
			*(SHARED f32x4 *)(x + at) = v[i];
	}
	bar();
	if (t < 32) {
		f32 sum = sum_of_squares(x, a.n);

		if (t == 0 && !is_finite(sum) &&
		    (a.check_all || is_wanted(&a.pass, row)))
			note_bad(&a.pass, row, a.place);
		if (t == 0)
			*factor = 1.0f / rn_sqrt(sum / (f32)a.n + a.eps);
	}
	bar();
	r = *factor;
	UNROLL for (i = 0; i < NORM_FOURS; i++) {
		at = 4 * (t + i * n_threads());
		v[i] = v[i] * r * w[i];
		store4(a.xn + row * a.xn_stride, at, a.n, whole, v[i]);
		if (at < nb * 256)
			*(SHARED f32x4 *)(x + at) = v[i];
	}
	if (a.groups == (void *)0)
		return;
	bar();
	for (g = t / 32; g < nb; g += n_threads() / 32) {
		const SHARED f32x4 *p = (const SHARED f32x4 *)(x + 256 * g +
		    8 * lane);

		put_groups(a.groups + row * a.group_bytes, g, nb, p[0], p[1],
		    a.two);
	}
}

/* A warp 256 numbers. */
KERNEL(group_rows, struct dev_rows)
{
	const u32 lane = tid() & 31, nb = (a.n + 255) / 256;
	const u32 item = (bid() * n_threads() + tid()) / 32;
	const u32 row = item / nb, g = item % nb, at = 256 * g + 8 * lane;
	const int whole = ((a.n | a.stride) & 3) == 0;
	GLOBAL f32 *x = a.x + row * a.stride;
	f32x4 v[2], up[2];
	u32 i, k;

	if (row >= a.n_row)
		return;
	UNROLL for (i = 0; i < 2; i++)
		v[i] = load4(x, at + 4 * i, a.n, whole);
	if (a.up != (void *)0) {
		UNROLL for (i = 0; i < 2; i++)
			up[i] = load4(a.up + row * a.stride, at + 4 * i, a.n,
			    whole);
		UNROLL for (i = 0; i < 2; i++) {
			UNROLL for (k = 0; k < 4; k++)
				v[i][k] = dev_silu(v[i][k]) * up[i][k];
			store4(x, at + 4 * i, a.n, whole, v[i]);
		}
	}
	if (a.groups != (void *)0)
		put_groups(a.groups + row * a.group_bytes, g, nb, v[0], v[1],
		    a.two);
}
