/* SPDX-License-Identifier: ISC */
/* norm.c - rows before a product: RMS norm, silu(gate) * up, and integers. */
#include "engine/cuda/kernel/math.h"
#include "engine/cuda/kernel/norm.h"

/* Sixteen partial sums of squares in 16 lanes, then the tree; a warp comes. */
DEV f32
sum_of_squares(const SHARED f32 *x, u32 n)
{
	f32 s = 0.0f, v[16];
	u32 i, k = tid() & 15;

	for (; k + 240 < n; k += 256) {
		UNROLL for (i = 0; i < 16; i++)
			v[i] = x[k + 16 * i];
		UNROLL for (i = 0; i < 16; i++)
			s = rn_fma(v[i], v[i], s);
	}
	for (; k < n; k += 16)
		s = rn_fma(x[k], x[k], s);
	UNROLL for (i = 8; i > 0; i /= 2)
		s = s + shfl_xor_f32(s, i);
	return s;
}

/* Is the result of row t needed after the last mixer? */
DEV int
is_wanted(const struct dev_pass *p, u32 t)
{
	const GLOBAL struct dev_share *s = p->share + p->row[t].share;

	return t - s->first >= s->want;
}

/* A warp's part in finding the factor of a row in x; the block has it after. */
DEV void
find_factor(const struct dev_norm *a, const SHARED f32 *x, SHARED f32 *factor)
{
	f32 sum = sum_of_squares(x, a->n);

	if (tid() != 0)
		return;
	*factor = 1.0f / rn_sqrt(sum / (f32)a->n + a->eps);
	if (!is_finite(sum) && (a->check_all || is_wanted(&a->pass, bid())))
		note_bad(&a->pass, bid(), a->place);
}

/* The groups of a row whose normed numbers are in x. */
DEV void
put_groups(const struct dev_norm *a, const SHARED f32 *x)
{
	const u32 lane = tid() & 31, nb = (a->n + 255) / 256;
	u32 i, g, at;
	f32 v[8];

	if (a->groups == (void *)0)
		return;
	bar();
	for (g = tid() / 32; g < nb; g += n_threads() / 32) {
		UNROLL for (i = 0; i < 8; i++) {
			at = 256 * g + 8 * lane + i;
			v[i] = at < a->n ? x[at] : 0.0f;
		}
		make_groups((GLOBAL struct dev_group *)(a->groups + bid() *
		    a->group_bytes), g, nb, v, a->two);
	}
}

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
		find_factor(&a, x, factor);
	bar();
	for (i = tid(); i < a.n; i += n_threads()) {
		x[i] = x[i] * *factor * a.weights[i];
		to[i] = x[i];
	}
	put_groups(&a, x);
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
		find_factor(&a, (const SHARED f32 *)x, factor);
	bar();
	r = *factor;
	UNROLL for (i = 0; i < 2; i++) {
		at = tid() + i * n_threads();
		if (at < n)
			x[at] = to[at] = v[i] * r * w[i];
	}
	put_groups(&a, (const SHARED f32 *)x);
}

/* A warp 256 numbers. */
KERNEL(group_rows, struct dev_rows)
{
	const u32 lane = tid() & 31, nb = (a.n + 255) / 256;
	const u32 item = (bid() * n_threads() + tid()) / 32;
	const u32 row = item / nb, g = item % nb;
	const u32 at = 256 * g + 8 * lane;
	GLOBAL f32 *x = a.x + row * a.stride;
	f32 v[8], u[8];
	u32 i;

	if (row >= a.n_row)
		return;
	/* all loads first: they do not pass the branch of a division */
	UNROLL for (i = 0; i < 8; i++)
		v[i] = x[at + i < a.n ? at + i : 0];
	if (a.up != (void *)0) {
		UNROLL for (i = 0; i < 8; i++)
			u[i] = a.up[row * a.stride + (at + i < a.n ? at + i :
			    0)];
		UNROLL for (i = 0; i < 8; i++)
			v[i] = dev_silu(v[i]) * u[i];
	}
	UNROLL for (i = 0; i < 8; i++) {
		if (a.up != (void *)0 && at + i < a.n)
			x[at + i] = v[i];
		v[i] = at + i < a.n ? v[i] : 0.0f;
	}
	if (a.groups != (void *)0)
		make_groups((GLOBAL struct dev_group *)(a.groups + row *
		    a.group_bytes), g, nb, v, a.two);
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
