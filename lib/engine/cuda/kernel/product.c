/* SPDX-License-Identifier: ISC */
/* product.c - products with weights of floats. */
#include "engine/cuda/kernel/columns.h"

/* Sixteen partial sums by k mod 16, then the tree. */
KERNEL(multiply_any, struct dev_product)
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

			wk = is_there ? float_weight(w, k + j, a.kind) :
			    0.0f;
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

/* ---- rows that are multiples of 16 numbers, at 16-byte borders */

/* Copies part k of the block's rows and columns; 32 threads a row. */
DEV void
fetch_part(const struct dev_product *a, const struct dev_columns *c,
    const u32 size, u32 k, SHARED u8 *to)
{
	const u32 n = a->n_in - k * FLOAT_PART < FLOAT_PART ?
	    a->n_in - k * FLOAT_PART : FLOAT_PART;
	const u32 at = tid() % 32 * 16, first = tid() / 32;
	const GLOBAL u8 *w = a->w + c->matrix * a->matrix_bytes +
	    k * FLOAT_PART * size + at;
	u32 i, r;

	to += at;
	UNROLL for (i = 0; i < FLOAT_ROWS; i += FLOAT_THREADS / 32) {
		r = bid_y() * FLOAT_ROWS + i + first;
		r = r < a->n_out ? r : a->n_out - 1;
		if (at < n * size)
			copy16(to + (i + first) * FLOAT_STRIDE,
			    w + r * a->row_bytes);
	}
	to += FLOAT_ROWS * FLOAT_STRIDE;
	for (i = first; i < c->n && at < n * 4; i += FLOAT_THREADS / 32)
		copy16(to + i * FLOAT_STRIDE, (const GLOBAL u8 *)(a->x +
		    c->x[i] * a->x_stride + k * FLOAT_PART) + at);
}

/* Four weights that follow each other. */
DEV f32x4
four_weights(const SHARED u8 *w, u32 k, const u32 kind)
{
	u32x2 h;

	if (kind == DEV_F32)
		return *(const SHARED f32x4 *)(w + 4 * k);
	h = *(const SHARED u32x2 *)(w + 2 * k);
	if (kind == DEV_BF16)
		return (f32x4){ bits_f32(h[0] << 16),
		    bits_f32(h[0] & 0xffff0000), bits_f32(h[1] << 16),
		    bits_f32(h[1] & 0xffff0000) };
	return (f32x4){ f16_f32((u16)h[0]), f16_f32((u16)(h[0] >> 16)),
	    f16_f32((u16)h[1]), f16_f32((u16)(h[1] >> 16)) };
}

/*
 * Four lanes have a row, and four of the 16 partial sums each; a warp has every
 * other column.
 */
DEV void
add_part(const SHARED u8 *at, const u32 kind, u32 n_column, u32 n,
    f32 (*sum)[4])
{
	const SHARED u8 *w = base(at + tid() / 4 % 8 * FLOAT_STRIDE +
	    tid() % 4 * (kind == DEV_F32 ? 16 : 8));
	const SHARED u8 *x = base(at + (FLOAT_ROWS + tid() / 32) *
	    FLOAT_STRIDE + tid() % 4 * 16);
	f32x4 wk[FLOAT_PART / 16], xk[FLOAT_PART / 16];
	u32 k, c, i;

	UNROLL for (k = 0; k < FLOAT_PART / 16; k++) {
		if (16 * k < n)
			wk[k] = four_weights(w, 16 * k, kind);
	}
	UNROLL for (c = 0; c < FLOAT_COLUMNS / 2; c++) {
		if (2 * c + tid() / 32 >= n_column)
			break;
		UNROLL for (k = 0; k < FLOAT_PART / 16; k++) {
			if (16 * k < n)
				xk[k] = *(const SHARED f32x4 *)(x +
				    2 * c * FLOAT_STRIDE + 64 * k);
		}
		UNROLL for (k = 0; k < FLOAT_PART / 16; k++) {
			UNROLL for (i = 0; i < 4 && 16 * k < n; i++)
				sum[c][i] = rn_fma(wk[k][i], xk[k][i],
				    sum[c][i]);
		}
	}
}

/* The sums of a row: i and i + 8, two lanes apart, then i + 4, i + 2, i + 1. */
DEV f32
add_lanes(f32 *s)
{
	u32 i;

	UNROLL for (i = 0; i < 4; i++)
		s[i] = s[i] + shfl_xor_f32(s[i], 2);
	UNROLL for (i = 0; i < 4; i++)
		s[i] = s[i] + shfl_xor_f32(s[i], 1);
	return (s[0] + s[2]) + (s[1] + s[3]);
}

DEV void
multiply_rows(const struct dev_product *a, const u32 kind)
{
	const struct dev_columns c = find_columns(a, FLOAT_COLUMNS,
	    (SHARED u32 *)SMEM);
	SHARED u8 *memory = SMEM + DEV_COLUMN_BYTES(FLOAT_COLUMNS);
	const u32 parts = (a->n_in + FLOAT_PART - 1) / FLOAT_PART;
	const u32 size = kind == DEV_F32 ? 4 : 2;
	const u32 r = bid_y() * FLOAT_ROWS + tid() / 4 % 8;
	f32 sum[FLOAT_COLUMNS / 2][4];
	u32 k, i, j;

	if (c.n == 0)
		return;
	UNROLL for (j = 0; j < FLOAT_COLUMNS / 2; j++)
		UNROLL for (i = 0; i < 4; i++)
			sum[j][i] = 0.0f;
	for (k = 0; k < FLOAT_STAGES - 1; k++) {
		if (k < parts)
			fetch_part(a, &c, size, k, memory + k * FLOAT_STAGE);
		copy_commit();
	}
	ONE_BY_ONE
	for (k = 0; k < parts; k++) {
		const u32 next = k + FLOAT_STAGES - 1;
		const SHARED u8 *now = memory + k % FLOAT_STAGES * FLOAT_STAGE;

		copy_wait(FLOAT_STAGES - 2);
		bar();
		if (next < parts)
			fetch_part(a, &c, size, next, memory +
			    next % FLOAT_STAGES * FLOAT_STAGE);
		copy_commit();
		if ((k + 1) * FLOAT_PART <= a->n_in)
			add_part(now, kind, c.n, FLOAT_PART, sum);
		else
			add_part(now, kind, c.n, a->n_in - k * FLOAT_PART, sum);
	}
	UNROLL for (j = 0; j < FLOAT_COLUMNS / 2; j++) {
		sum[j][0] = add_lanes(sum[j]);
		i = 2 * j + tid() / 32;
		if (tid() % 4 == 0 && r < a->n_out && i < c.n)
			put_product(a, c.matrix, c.y[i], r, sum[j][0]);
	}
}

KERNEL(multiply_f32, struct dev_product) { multiply_rows(&a, DEV_F32); }
KERNEL(multiply_f16, struct dev_product) { multiply_rows(&a, DEV_F16); }
KERNEL(multiply_bf16, struct dev_product) { multiply_rows(&a, DEV_BF16); }
