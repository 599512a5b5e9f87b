/* SPDX-License-Identifier: ISC */
/* norm.c - rows before a product: RMS norm, silu(gate) * up, and integers. */
#include "engine/cuda/kernel/norm_row.h"

/* A block a row: SMEM has its numbers and one more. */
KERNEL(norm_rows, struct dev_norm)
{
	SHARED f32 *x = (SHARED f32 *)SMEM, *factor = x + a.n;
	GLOBAL f32 *from = a.x + bid() * a.x_stride;
	GLOBAL f32 *to = a.xn + bid() * a.xn_stride;
	u32 i;

	for (i = tid(); i < a.n; i += n_threads()) {
		x[i] = from[i];
		if (a.out != (void *)0) {
			x[i] = x[i] + a.out[bid() * a.out_stride + i];
			from[i] = x[i];
		}
	}
	bar();
	if (tid() < 32)
		find_factor(&a, bid(), x, factor);
	bar();
	for (i = tid(); i < a.n; i += n_threads()) {
		x[i] = x[i] * *factor * a.weights[i];
		to[i] = x[i];
	}
	put_norm_groups(&a, bid(), x);
}

/*
 * The same for rows of up to 8 numbers a thread, at 16-byte borders: all that is
 * read of them is under way at once.
 */
KERNEL(norm_rows_16, struct dev_norm)
{
	SHARED f32x4 *x = (SHARED f32x4 *)SMEM;
	SHARED f32 *factor = (SHARED f32 *)(x + a.n / 4);
	GLOBAL f32x4 *from = (GLOBAL f32x4 *)(a.x + bid() * a.x_stride);
	GLOBAL f32x4 *to = (GLOBAL f32x4 *)(a.xn + bid() * a.xn_stride);
	const GLOBAL f32x4 *out = (const GLOBAL f32x4 *)(a.out +
	    bid() * a.out_stride);
	const int adds = a.out != (void *)0;
	const u32 n = a.n / 4;
	f32x4 v[2], o[2], w[2];
	u32 i, at;
	f32 r;

	UNROLL for (i = 0; i < 2; i++) {
		at = tid() + i * n_threads();
		v[i] = o[i] = w[i] = (f32x4){ 0, 0, 0, 0 };
		if (at < n) {
			v[i] = from[at];
			w[i] = ((const GLOBAL f32x4 *)a.weights)[at];
			if (adds)
				o[i] = out[at];
		}
	}
	UNROLL for (i = 0; i < 2; i++) {
		at = tid() + i * n_threads();
		if (at < n && adds) {
			v[i] = v[i] + o[i];
			from[at] = v[i];
		}
		if (at < n)
			x[at] = v[i];
	}
	bar();
	if (tid() < 32)
		find_factor(&a, bid(), (const SHARED f32 *)x, factor);
	bar();
	r = *factor;
	UNROLL for (i = 0; i < 2; i++) {
		at = tid() + i * n_threads();
		if (at < n)
			x[at] = to[at] = v[i] * r * w[i];
	}
	put_norm_groups(&a, bid(), (const SHARED f32 *)x);
}

/* A warp 256 numbers. */
KERNEL(group_rows, struct dev_rows)
{
	const u32 item = (bid() * n_threads() + tid()) / 32;
	const u32 nb = (a.n + 255) / 256;

	if (item < nb * a.n_row)
		group_row(&a, item / nb, item % nb);
}

/* A block half a row: SMEM has its numbers and one more. */
KERNEL(join_rows, struct dev_join)
{
	SHARED f32 *x = (SHARED f32 *)SMEM, *factor = x + a.n;
	const GLOBAL f32 *weights = a.weights[bid() & 1];
	GLOBAL f32 *row = a.x + (u64)bid() * a.n;
	f32 sum;
	u32 i;

	if (a.there[bid()] == 0)
		return;
	for (i = tid(); i < a.n; i += n_threads())
		x[i] = row[i];
	bar();
	if (tid() < 32) {
		sum = sum_of_squares(x, a.n);
		if (tid() == 0)
			*factor = 1.0f / rn_sqrt(sum / (f32)a.n + a.eps);
	}
	bar();
	for (i = tid(); i < a.n; i += n_threads())
		row[i] = x[i] * *factor * weights[i];
}
