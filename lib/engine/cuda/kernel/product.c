/* SPDX-License-Identifier: ISC */
/* product.c - products with weights of floats. */
#include "engine/cuda/kernel/columns.h"

DEV f32
weight_f32(const GLOBAL u8 *w, u32 k, u32 kind)
{
	return kind == DEV_F32 ? ((const GLOBAL f32 *)w)[k] :
	    kind == DEV_F16 ? f16_f32(((const GLOBAL u16 *)w)[k]) :
	    bf16_f32(((const GLOBAL u16 *)w)[k]);
}

/* Sixteen partial sums by k mod 16, then the tree. */
KERNEL(multiply_float, struct dev_product)
{
	const u32 r = bid_y() * n_threads() + tid();
	struct dev_columns c;
	const GLOBAL u8 *w;
	f32 part[16], wk, xk;
	u32 k, j;

	c = find_columns(&a, 1, (SHARED u32 *)SMEM);
	if (c.n == 0 || r >= a.n_out)
		return;
	w = a.w + c.matrix * a.matrix_bytes + r * a.row_bytes;
	UNROLL for (j = 0; j < 16; j++)
		part[j] = 0.0f;
	for (k = 0; k < a.n_in; k += 16) {
		UNROLL for (j = 0; j < 16; j++) {
			int is_there = k + j < a.n_in;

			wk = is_there ? weight_f32(w, k + j, a.kind) : 0.0f;
			xk = is_there ? a.x[c.x[0] * a.x_stride + k + j] : 0.0f;
			part[j] = rn_fma(wk, xk, part[j]);
		}
	}
	for (k = 8; k > 0; k /= 2) {
		UNROLL for (j = 0; j < 8; j++) {
			if (j < k)
				part[j] = part[j] + part[j + k];
		}
	}
	put_product(&a, c.matrix, c.y[0], r, part[0]);
}
