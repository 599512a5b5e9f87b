/* SPDX-License-Identifier: ISC */
/* product.c - products of any format and size; a thread makes a number. */
#include "engine/cuda/kernel/product.h"

/* Returns the sum of 16 products. */
DEV s32
dot16(const GLOBAL s8 *w, const GLOBAL s8 *q)
{
	const GLOBAL u32 *a = (const GLOBAL u32 *)w;
	const GLOBAL u32 *b = (const GLOBAL u32 *)q;
	s32 s = 0;
	u32 i;

	UNROLL for (i = 0; i < 4; i++)
		s = dp4a(a[i], b[i], s);
	return s;
}

DEV s32
sum16(const GLOBAL struct dev_group *g, u32 b)
{
	return g->high16[b] * 256 + g->low16[b];
}

DEV f32
dot_super(const struct dev_product *a, const GLOBAL u8 *w,
    const GLOBAL struct dev_group *g)
{
	const GLOBAL struct dev_super *u = (const GLOBAL struct dev_super *)w;
	f32 acc = 0.0f;
	u32 k, b;

	for (k = 0; k < (a->n_in + 255) / 256; k++, u++, g++) {
		s32 sum = 0, min = 0;

		for (b = 0; b < 16; b++) {
			sum += u->scale[b] * g->a[b / 2] *
			    dot16(u->w + 16 * b, g->q + 16 * b);
			min += u->min[b] * sum16(g, b);
		}
		acc = rn_fma(u->d * g->d, (f32)sum, acc);
		if (a->has_min)
			acc = rn_fma(-u->m * g->d, (f32)min, acc);
	}
	return acc;
}

DEV f32
dot_block(const struct dev_product *a, const GLOBAL u8 *w,
    const GLOBAL struct dev_group *g)
{
	const u32 bytes = DEV_BLOCK_BYTES(a->span, a->has_min);
	const u32 n = 256 / a->span;
	f32 acc = 0.0f;
	u32 i, k, b;

	for (i = 0; i < (a->n_in + 255) / 256; i++, w += bytes, g++) {
		const GLOBAL f32 *d = (const GLOBAL f32 *)(w + 256);
		f32 part = 0.0f, part_min = 0.0f;

		for (k = b = 0; k < n; k++) {
			s32 sum = 0, min = 0;

			for (; b < (k + 1) * a->span / 16; b++) {
				sum += g->a[b / 2] * dot16((const GLOBAL s8 *)w +
				    16 * b, g->q + 16 * b);
				min += sum16(g, b);
			}
			part = rn_fma(d[k], (f32)sum, part);
			if (a->has_min)
				part_min = rn_fma(d[n + k], (f32)min, part_min);
		}
		acc = rn_fma(g->d, part, acc);
		if (a->has_min)
			acc = rn_fma(g->d, part_min, acc);
	}
	return acc;
}

/* Row r of the weights by row or pair i. */
#define WHERE								\
	const u32 i = bid(), r = bid_y() * n_threads() + tid();		\
	struct dev_place p;						\
	const GLOBAL u8 *w;						\
									\
	if (r >= a.n_out)						\
		return;							\
	p = place_of(&a, i);						\
	w = a.w + p.matrix * a.matrix_bytes + r * a.row_bytes

/* Both terms of activations, in a kernel for one form of weights. */
#define INTEGERS(dot) do {						\
	const GLOBAL struct dev_group *g = (const GLOBAL struct		\
	    dev_group *)(a.groups + p.x * a.group_bytes);		\
	f32 y = dot(&a, w, g);						\
									\
	if (a.two)							\
		y = y + dot(&a, w, g + (a.n_in + 255) / 256);		\
	put_product(&a, &p, r, y);					\
} while (0)

KERNEL(multiply_super, struct dev_product)
{
	WHERE;
	INTEGERS(dot_super);
}

KERNEL(multiply_block, struct dev_product)
{
	WHERE;
	INTEGERS(dot_block);
}

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
	f32 part[16], wk, xk;
	u32 k, j;

	WHERE;
	UNROLL for (j = 0; j < 16; j++)
		part[j] = 0.0f;
	for (k = 0; k < a.n_in; k += 16) {
		UNROLL for (j = 0; j < 16; j++) {
			int is_there = k + j < a.n_in;

			wk = is_there ? weight_f32(w, k + j, a.kind) : 0.0f;
			xk = is_there ? a.x[p.x * a.x_stride + k + j] : 0.0f;
			part[j] = rn_fma(wk, xk, part[j]);
		}
	}
	for (k = 8; k > 0; k /= 2) {
		UNROLL for (j = 0; j < 8; j++) {
			if (j < k)
				part[j] = part[j] + part[j + k];
		}
	}
	put_product(&a, &p, r, part[0]);
}
