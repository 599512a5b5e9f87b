/* SPDX-License-Identifier: ISC */
/* experts.c - the sum of what experts have made of a row. */
#include "engine/cuda/kernel/experts.h"

/* Blocks: COMBINE_THREADS numbers; rows. */
KERNEL(combine_experts, struct dev_combine)
{
	u32 i = bid() * COMBINE_THREADS + tid(), row = bid_y(), e;
	const GLOBAL f32 *share = a.share + (u64)row * a.share_stride;
	const GLOBAL f32 *y = a.y + (u64)row * a.used * a.y_stride + i;
	f32 sum = 0.0f, x[4];
	u32 j;

	if (i >= a.n_embd)
		return;
	for (e = 0; e + 4 <= a.used; e += 4) {	/* four loads at a time */
		UNROLL for (j = 0; j < 4; j++)
			x[j] = y[(u64)(e + j) * a.y_stride];
		UNROLL for (j = 0; j < 4; j++)
			sum = rn_fma(share[e + j], x[j], sum);
	}
	for (; e < a.used; e++)
		sum = rn_fma(share[e], y[(u64)e * a.y_stride], sum);
	if (a.has_shared)
		sum = rn_fma(share[e], a.y[((u64)a.n * a.used + row) *
		    a.y_stride + i], sum);
	a.out[(u64)row * a.out_stride + i] = sum;
}
