/* SPDX-License-Identifier: ISC */
/*
 * one.c - all products of a row of activations, in one launch, and what comes
 * next, by the block that is the last to end.
 */
#include "engine/cuda/kernel/norm_row.h"
#include "engine/cuda/kernel/one.h"
#include "engine/cuda/kernel/route_row.h"

/* ---- after products */

/* Where a piece of 256 numbers is in a row of results: gate's, then up's. */
struct piece { u32 from, to, g; };

DEV struct piece
piece_of(u32 n, u32 u)
{
	const u32 nb = (n + 255) / 256, half = u / nb, g = u % nb;
	struct piece p = { .from = half * n + g * 256, .g = g };

	p.to = g + 1 < nb ? p.from + 256 : (half + 1) * n;
	return p;
}

/*
 * Makes the groups of row `row' of which this block has the last results: it has
 * those from r on, before `end'.  A warp has a group.
 */
DEV void
then_silu(const struct dev_ones *a, u32 row, u32 r, u32 end)
{
	const u32 n = a->silu.n, nb = (n + 255) / 256;
	const u32 last = (end - 1) / n * nb + (end - 1) % n / 256;
	u32 u = r / n * nb + r % n / 256 + tid() / 32, got;

	fence();
	bar();
	for (; u <= last; u += ONE_WARPS) {
		struct piece p = piece_of(n, u);
		GLOBAL u32 *counter = a->counter + row * nb + p.g;

		got = (p.to < end ? p.to : end) - (p.from > r ? p.from : r);
		if ((tid() & 31) == 0)
			got += atomic_add(counter, got);
		if ((u32)shfl((s32)got, 0) != 2 * (p.to - p.from))
			continue;
		if ((tid() & 31) == 0)
			*counter = 0;
		fence();
		group_row(&a->silu, row, p.g);
	}
}

/* Is this block the last one?  Then it sees what the others wrote. */
DEV int
is_last_block(GLOBAL u32 *counter, u32 n)
{
	SHARED u32 *last = (SHARED u32 *)SMEM;

	fence();
	bar();
	if (tid() == 0) {
		*last = atomic_add(counter, 1) + 1 == n;
		if (*last)
			*counter = 0;
	}
	bar();
	if (*last == 0)
		return 0;
	fence();
	bar();		/* all have read it */
	return 1;
}

enum { FOURS = 4 };	/* pieces of four numbers whose loads are under way */

/* The sum of what the experts made of a row, four numbers at a time. */
DEV void
combine_row(const struct dev_combine *a)
{
	const u32 n = a->n_embd / 4, step = a->y_stride / 4;
	const GLOBAL f32x4 *y = (const GLOBAL f32x4 *)a->y;
	const u32 all = a->used + (a->has_shared != 0);
	u32 i, e, j;

	for (i = tid(); i < n; i += ONE_THREADS) {
		f32x4 sum = { 0, 0, 0, 0 }, v[FOURS];

		for (e = 0; e < all; e += FOURS) {
			UNROLL for (j = 0; j < FOURS; j++)
				v[j] = y[(e + j < all ? e + j : e) * step + i];
			UNROLL for (j = 0; j < FOURS; j++) {
				f32 k = a->share[e + j < all ? e + j : e];
				u32 c;

				UNROLL for (c = 0; c < 4 && e + j < all; c++)
					sum[c] = rn_fma(k, v[j][c], sum[c]);
			}
		}
		((GLOBAL f32x4 *)a->out)[i] = sum;
	}
}

/* Adds a row to the residual stream, and norms it. */
DEV void
norm_row(const struct dev_norm *a)
{
	const u32 n = a->n / 4;
	SHARED f32x4 *x = (SHARED f32x4 *)SMEM;
	SHARED f32 *factor = (SHARED f32 *)(x + n);
	GLOBAL f32x4 *from = (GLOBAL f32x4 *)a->x;
	const GLOBAL f32x4 *w = (const GLOBAL f32x4 *)a->weights;
	f32x4 v[FOURS], o[FOURS];
	u32 i, j, at;

	for (i = tid(); i < n; i += FOURS * ONE_THREADS) {
		UNROLL for (j = 0; j < FOURS; j++) {
			at = i + j * ONE_THREADS;
			v[j] = from[at < n ? at : 0];
			o[j] = ((const GLOBAL f32x4 *)a->out)[at < n ? at : 0];
		}
		UNROLL for (j = 0; j < FOURS; j++) {
			at = i + j * ONE_THREADS;
			if (at < n)
				x[at] = from[at] = v[j] + o[j];
		}
	}
	bar();
	if (tid() < 32)
		find_factor(a, 0, (const SHARED f32 *)x, factor);
	bar();
	for (i = tid(); i < n; i += ONE_THREADS)
		x[i] = ((GLOBAL f32x4 *)a->xn)[i] = x[i] * *factor * w[i];
	put_norm_groups(a, 0, (const SHARED f32 *)x);
}

/* ---- products */

/*
 * Blocks: those of each product, one after another.  They ask for weights while the
 * launch before ends.
 */
KERNEL_EARLY(one, struct dev_ones)
{
	u32 i = 0, b = bid(), f, pair, rows, r;
	const struct dev_product *p;

	allow_next();
	while (i + 1 < ONES_MAX && bid() >= a.end[i])
		b = bid() - a.end[i++];
	p = &a.p[i];
	f = a.format[i];
	pair = b / a.blocks[i];
	b -= pair * a.blocks[i];
	if (f == F_Q4_K)
		multiply_one(F_Q4_K, p, b, pair);
	else if (f == F_Q5_K)
		multiply_one(F_Q5_K, p, b, pair);
	else if (f == F_Q6_K)
		multiply_one(F_Q6_K, p, b, pair);
	else if (f == F_Q8_0)
		multiply_one(F_Q8_0, p, b, pair);
	else if (f == F_Q4)
		multiply_one(F_Q4, p, b, pair);
	else if (f == F_IQ4_XS)
		multiply_one(F_IQ4_XS, p, b, pair);
	else if (f == F_Q3_K)
		multiply_one(F_Q3_K, p, b, pair);
	else if (f == F_Q2_K)
		multiply_one(F_Q2_K, p, b, pair);
	else if (f == ONES_FLOATS + DEV_F32)
		multiply_floats(p, DEV_F32, b, pair);
	else if (f == ONES_FLOATS + DEV_F16)
		multiply_floats(p, DEV_F16, b, pair);
	else
		multiply_floats(p, DEV_BF16, b, pair);
	if (a.then == ONES_SILU) {
		rows = f < ONES_FLOATS ? ONE_WARPS * p->rows : ONE_FLOATS;
		r = (b + 1) * rows < p->n_out ? (b + 1) * rows : p->n_out;
		then_silu(&a, a.row[i] + pair, a.column[i] + b * rows,
		    a.column[i] + r);
		return;
	}
	if (a.then == 0 || !is_last_block(a.counter, n_blocks()))
		return;
	if (a.then == ONES_ROUTE) {
		if (tid() >= 32)
			return;
		route_row(&a.route, (SHARED u32 *)SMEM, 0);
		list_pairs(&a.route, (const SHARED u32 *)SMEM);
		return;
	}
	if (a.then & ONES_COMBINE) {
		combine_row(&a.combine);
		bar();
	}
	if (a.then & ONES_NORM)
		norm_row(&a.norm);
}
