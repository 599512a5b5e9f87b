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

/* A block a row: SMEM has its numbers and one more. */
KERNEL(norm_rows, struct dev_norm)
{
	SHARED f32 *x = (SHARED f32 *)SMEM, *factor = x + a.n;
	const u32 t = tid(), lane = t & 31, row = bid(), nb = (a.n + 255) / 256;
	GLOBAL f32 *from = a.x + row * a.x_stride;
	GLOBAL f32 *to = a.xn + row * a.xn_stride;
	u32 i, g;
	f32 r;

	for (i = t; i < a.n; i += n_threads()) {
		x[i] = from[i];
		if (a.out != (void *)0) {
			x[i] = x[i] + a.out[row * a.out_stride + i];
			from[i] = x[i];
		}
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
	for (i = t; i < a.n; i += n_threads()) {
		x[i] = x[i] * r * a.weights[i];
		to[i] = x[i];
	}
	if (a.groups == (void *)0)
		return;
	bar();
	for (g = t / 32; g < nb; g += n_threads() / 32) {
		f32 v[8];

		UNROLL for (i = 0; i < 8; i++) {
			u32 at = 256 * g + 8 * lane + i;

			v[i] = at < a.n ? x[at] : 0.0f;
		}
		make_groups((GLOBAL struct dev_group *)(a.groups + row *
		    a.group_bytes), g, nb, v, a.two);
	}
}

/* A warp 256 numbers. */
KERNEL(group_rows, struct dev_rows)
{
	const u32 lane = tid() & 31, nb = (a.n + 255) / 256;
	const u32 item = (bid() * n_threads() + tid()) / 32;
	const u32 row = item / nb, g = item % nb;
	GLOBAL f32 *x = a.x + row * a.stride;
	f32 v[8];
	u32 i;

	if (row >= a.n_row)
		return;
	UNROLL for (i = 0; i < 8; i++) {
		u32 at = 256 * g + 8 * lane + i;

		v[i] = at < a.n ? x[at] : 0.0f;
		if (a.up != (void *)0 && at < a.n) {
			v[i] = dev_silu(v[i]) * a.up[row * a.stride + at];
			x[at] = v[i];
		}
	}
	if (a.groups != (void *)0)
		make_groups((GLOBAL struct dev_group *)(a.groups + row *
		    a.group_bytes), g, nb, v, a.two);
}
