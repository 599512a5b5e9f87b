/* SPDX-License-Identifier: ISC */
/* norm_row.h - a row before a product: RMS norm, silu(gate) * up, integers. */
#ifndef QWEN_CUDA_NORM_ROW_H
#define QWEN_CUDA_NORM_ROW_H

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

/* A warp's part in finding the factor of row t, which is in x; the block has it after. */
DEV void
find_factor(const struct dev_norm *a, u32 t, const SHARED f32 *x,
    SHARED f32 *factor)
{
	f32 sum = sum_of_squares(x, a->n);

	if (tid() != 0)
		return;
	*factor = 1.0f / rn_sqrt(sum / (f32)a->n + a->eps);
	if (!is_finite(sum) && (a->check_all || is_wanted(&a->pass, t)))
		note_bad(&a->pass, t, a->place);
}

/* The groups of row t, whose normed numbers are in x. */
DEV void
put_norm_groups(const struct dev_norm *a, u32 t, const SHARED f32 *x)
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
		make_groups((GLOBAL struct dev_group *)(a->groups + t *
		    a->group_bytes), g, nb, v, a->two);
	}
}

/* Group g of a row, by a warp. */
DEV void
group_row(const struct dev_rows *a, u32 row, u32 g)
{
	const u32 at = 256 * g + 8 * (tid() & 31), nb = (a->n + 255) / 256;
	GLOBAL f32 *x = a->x + row * a->stride;
	f32 v[8], u[8];
	u32 i;

	/* all loads first: they do not pass the branch of a division */
	UNROLL for (i = 0; i < 8; i++)
		v[i] = x[at + i < a->n ? at + i : 0];
	if (a->up != (void *)0) {
		UNROLL for (i = 0; i < 8; i++)
			u[i] = a->up[row * a->stride + (at + i < a->n ?
			    at + i : 0)];
		UNROLL for (i = 0; i < 8; i++)
			v[i] = dev_silu(v[i]) * u[i];
	}
	UNROLL for (i = 0; i < 8; i++) {
		if (a->up != (void *)0 && at + i < a->n)
			x[at + i] = v[i];
		v[i] = at + i < a->n ? v[i] : 0.0f;
	}
	if (a->groups != (void *)0)
		make_groups((GLOBAL struct dev_group *)(a->groups + row *
		    a->group_bytes), g, nb, v, a->two);
}

#endif
