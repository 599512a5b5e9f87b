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

/* One row of x: sixteen lanes have a row of weights, a partial sum each. */
KERNEL(multiply_one, struct dev_product)
{
	enum { AHEAD = 32 };	/* loads under way */
	const u32 lane = tid() & 15, at = (bid() * n_threads() + tid()) / 16;
	const u32 r = at < a.n_out ? at : a.n_out - 1;
	const GLOBAL u8 *w = a.w + r * a.row_bytes;
	f32 v[AHEAD], x[AHEAD], sum = 0.0f;
	u32 k, i;

	for (k = lane; k + 16 * (AHEAD - 1) < a.n_in; k += 16 * AHEAD) {
		UNROLL for (i = 0; i < AHEAD; i++) {
			v[i] = weight_f32(w, k + 16 * i, a.kind);
			x[i] = a.x[k + 16 * i];
		}
		UNROLL for (i = 0; i < AHEAD; i++)
			sum = rn_fma(v[i], x[i], sum);
	}
	for (; k < a.n_in; k += 16)
		sum = rn_fma(weight_f32(w, k, a.kind), a.x[k], sum);
	/* a last term that is missing */
	if (a.n_in % 16 != 0 && lane >= a.n_in % 16)
		sum = sum + 0.0f;
	UNROLL for (i = 8; i > 0; i /= 2)
		sum = sum + shfl_xor_f32(sum, i);
	if (lane == 0 && at < a.n_out)
		put_product(&a, 0, 0, at, sum);
}

/* ---- rows that are multiples of 16 numbers, at 16-byte borders */

/* Copies part k of the block's rows and columns. */
DEV void
fetch_part(const struct dev_product *a, const struct dev_columns *c, u32 k,
    SHARED u8 *to)
{
	const u32 size = a->kind == DEV_F32 ? 4 : 2;
	const u32 n = a->n_in - k * FLOAT_PART < FLOAT_PART ?
	    a->n_in - k * FLOAT_PART : FLOAT_PART;
	u32 i, r, at;

	for (i = tid(); i < FLOAT_ROWS * 32; i += FLOAT_THREADS) {
		r = bid_y() * FLOAT_ROWS + i / 32;
		at = i % 32 * 16;
		r = r < a->n_out ? r : a->n_out - 1;
		if (at < n * size)
			copy16(to + i / 32 * FLOAT_STRIDE + at, a->w +
			    c->matrix * a->matrix_bytes + r * a->row_bytes +
			    k * FLOAT_PART * size + at);
	}
	to += FLOAT_ROWS * FLOAT_STRIDE;
	for (i = tid(); i < c->n * 32; i += FLOAT_THREADS) {
		at = i % 32 * 4;
		if (at < n)
			copy16(to + i / 32 * FLOAT_STRIDE + 4 * at, a->x +
			    c->x[i / 32] * a->x_stride + k * FLOAT_PART + at);
	}
}

/* Four weights that follow each other. */
DEV f32x4
four_weights(const SHARED u8 *w, u32 k, u32 kind)
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
 * Four lanes have a row, and four of the 16 partial sums each; a thread has every
 * other column.
 */
DEV void
add_part(const struct dev_product *a, const SHARED u8 *at, u32 n_column,
    u32 n, f32 (*sum)[4])
{
	const SHARED u8 *w = at + tid() / 4 % 8 * FLOAT_STRIDE;
	const SHARED u8 *x = at + (FLOAT_ROWS + tid() / 32) * FLOAT_STRIDE;
	u32 k, c, i;

	for (k = tid() % 4 * 4; k < n; k += 16) {
		f32x4 wk = four_weights(w, k, a->kind);

		UNROLL for (c = 0; c < FLOAT_COLUMNS / 2; c++) {
			f32x4 xk;

			if (2 * c + tid() / 32 >= n_column)
				break;
			xk = *(const SHARED f32x4 *)(x + 2 * c * FLOAT_STRIDE +
			    4 * k);
			UNROLL for (i = 0; i < 4; i++)
				sum[c][i] = rn_fma(wk[i], xk[i], sum[c][i]);
		}
	}
}

KERNEL(multiply_floats, struct dev_product)
{
	const struct dev_columns c = find_columns(&a, FLOAT_COLUMNS,
	    (SHARED u32 *)SMEM);
	SHARED u8 *memory = SMEM + DEV_COLUMN_BYTES(FLOAT_COLUMNS);
	const u32 parts = (a.n_in + FLOAT_PART - 1) / FLOAT_PART;
	const u32 r = bid_y() * FLOAT_ROWS + tid() / 4 % 8;
	f32 sum[FLOAT_COLUMNS / 2][4];
	u32 k, i, j;

	if (c.n == 0)
		return;
	UNROLL for (j = 0; j < FLOAT_COLUMNS / 2; j++)
		UNROLL for (i = 0; i < 4; i++)
			sum[j][i] = 0.0f;
	for (k = 0; k < parts + FLOAT_STAGES - 1; k++) {
		const u32 now = k - (FLOAT_STAGES - 1);

		if (k < parts)
			fetch_part(&a, &c, k, memory + k % FLOAT_STAGES *
			    FLOAT_STAGE);
		copy_commit();
		if (k < FLOAT_STAGES - 1)
			continue;
		copy_wait(FLOAT_STAGES - 1);
		bar();
		add_part(&a, memory + now % FLOAT_STAGES * FLOAT_STAGE, c.n,
		    a.n_in - now * FLOAT_PART < FLOAT_PART ? a.n_in - now *
		    FLOAT_PART : FLOAT_PART, sum);
		bar();
	}
	UNROLL for (j = 0; j < FLOAT_COLUMNS / 2; j++) {
		/* i and i + 8: lanes 2 apart; then i + 4, i + 2, i + 1 */
		UNROLL for (i = 0; i < 4; i++)
			sum[j][i] = sum[j][i] + shfl_xor_f32(sum[j][i], 2);
		UNROLL for (i = 0; i < 4; i++)
			sum[j][i] = sum[j][i] + shfl_xor_f32(sum[j][i], 1);
		sum[j][0] = (sum[j][0] + sum[j][2]) + (sum[j][1] + sum[j][3]);
		i = 2 * j + tid() / 32;
		if (tid() % 4 == 0 && r < a.n_out && i < c.n)
			put_product(&a, c.matrix, c.y[i], r, sum[j][0]);
	}
}
