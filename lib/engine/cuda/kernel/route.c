/* SPDX-License-Identifier: ISC */
/*
 * route.c - chooses the experts of rows, and sorts them, so that an expert's rows
 * are multiplied together.
 */
#include "engine/cuda/kernel/route_row.h"

/* ---- sorting */

/* Sets the numbers of count to the sums of those before them; by a warp. */
DEV void
add_up(SHARED u32 *count, u32 n)
{
	u32 lane = tid() & 31, each = (n + 31) / 32, i, m, sum = 0, o;
	u32 from = lane * each < n ? lane * each : n;
	u32 to = from + each < n ? from + each : n;

	for (i = from; i < to; i++)
		sum += count[i];
	o = sum;
	for (m = 1; m < 32; m *= 2) {
		u32 v = (u32)shfl((s32)sum, lane - m);

		sum += lane >= m ? v : 0;
	}
	sum -= o;
	for (i = from; i < to; i++) {
		o = count[i];
		count[i] = sum;
		sum += o;
	}
}

/* The expert of a pair: of those in the block's memory, or of all. */
DEV u32
expert_of(const struct dev_route *a, const SHARED u32 *here, u32 pair)
{
	u32 row = pair / a->each, i = pair % a->each;

	return here != (void *)0 ? here[row * ROUTE_NUMBERS(a->n_expert,
	    a->used) + i] : a->chosen[(u64)row * a->chosen_stride + i];
}

/* Sorts the experts of all rows, by a block. */
DEV void
sort_pairs(const struct dev_route *a, SHARED u32 *count, const SHARED u32 *here)
{
	u32 n = a->n * a->each, n_expert = a->n_expert + a->each - a->used, i;

	for (i = tid(); i < n_expert; i += n_threads())
		count[i] = 0;
	bar();
	for (i = tid(); i < n; i += n_threads())
		atomic_add_shared(&count[expert_of(a, here, i)], 1);
	bar();
	if (tid() < 32)
		add_up(count, n_expert);
	bar();
	for (i = tid(); i < n_expert; i += n_threads())
		a->first[i] = count[i];
	if (tid() == 0)
		a->first[n_expert] = n;
	bar();
	for (i = tid(); i < n; i += n_threads())
		a->at[atomic_add_shared(&count[expert_of(a, here, i)], 1)] = i;
}

/*
 * Chooses the experts of rows; a warp has a row.  If there is one block, it also
 * sorts them.
 */
KERNEL(route, struct dev_route)
{
	u32 n_warp = n_threads() / 32, warp = tid() / 32;
	u32 t = bid() * n_warp + warp;
	SHARED u32 *at = (SHARED u32 *)SMEM +
	    warp * ROUTE_NUMBERS(a.n_expert, a.used);

	if (t < a.n)
		route_row(&a, at, t);
	if (n_blocks() > 1)
		return;
	if (a.n == 1) {
		list_pairs(&a, at);
		return;
	}
	bar();
	sort_pairs(&a, (SHARED u32 *)SMEM +
	    n_warp * ROUTE_NUMBERS(a.n_expert, a.used), (SHARED u32 *)SMEM);
}

/* Sorts the experts of rows, after `route' with several blocks. */
KERNEL(sort_experts, struct dev_route)
{
	sort_pairs(&a, (SHARED u32 *)SMEM, (void *)0);
}
