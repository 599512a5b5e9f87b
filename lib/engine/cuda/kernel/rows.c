/* SPDX-License-Identifier: ISC */
/* rows.c - rows of the residual stream: add, move. */
#include "engine/cuda/kernel/rows.h"

/* x += y */
KERNEL(add_rows, struct dev_add)
{
	const u32 i = bid() * n_threads() + tid();

	if (i < a.n)
		a.x[i] = a.x[i] + a.y[i];
}

/* Row at[i] of x becomes row i of y; a block a row. */
KERNEL(gather_rows, struct dev_gather)
{
	u32 i;

	for (i = tid(); i < a.n; i += n_threads())
		a.y[(u64)bid() * a.n + i] = a.x[(u64)a.at[bid()] * a.n + i];
}

/* A block a row. */
KERNEL(add_deep, struct dev_deep)
{
	const u32 deep = a.pass.row[bid()].deep;
	u64 from;
	u32 i;

	if (deep == 0)
		return;
	from = ((u64)(deep - 1) * a.n_layer + a.layer) * a.n;
	for (i = tid(); i < a.n; i += n_threads())
		a.x[(u64)bid() * a.n + i] = a.x[(u64)bid() * a.n + i] +
		    a.y[from + i];
}
