/* SPDX-License-Identifier: ISC */
/* lora.c - adds what adapters add to products: the sum of low[k] B[r][k]. */
#include "engine/cuda/kernel/lora.h"

/* Returns the matrix of pair i: the last one that begins at or before it. */
DEV u32
matrix_of(const struct dev_lora *a, u32 i)
{
	u32 e = 0, end = a->n_matrix, middle;

	while (end - e > 1) {
		middle = (e + end) / 2;
		if (a->first[middle] <= i)
			e = middle;
		else
			end = middle;
	}
	return e;
}

/* Blocks: rows, or pairs; DEV_LOW_ROWS numbers of each. */
KERNEL(add_low, struct dev_lora)
{
	const u32 i = bid_y() * DEV_LOW_ROWS + tid(), r = a.r + i;
	const u32 row = a.at != (void *)0 ? a.at[bid()] : bid();
	const GLOBAL f32 *low = a.low + (u64)row * a.rank, *b = a.b;
	f32 y;
	u32 k;

	if (i >= a.n_out)
		return;
	if (a.at != (void *)0)
		b += matrix_of(&a, bid()) * a.b_expert;
	b += (u64)(r / DEV_LOW_ROWS) * DEV_LOW_ROWS * a.rank + r % DEV_LOW_ROWS;
	y = a.y[row * a.y_stride + i];
	for (k = 0; k < a.rank; k++)
		y = rn_fma(low[k], b[(u64)k * DEV_LOW_ROWS], y);
	a.y[row * a.y_stride + i] = y;
}
