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

enum { EACH = 8 };	/* rows, and columns, of a lane */

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

/*
 * Sixteen lanes have a partial sum each, of every other row, and a warp has half of
 * the columns: 64 products a lane for 16 numbers of each.
 */
DEV void
add_part(const SHARED u8 *at, const u32 kind, u32 n, f32 (*sum)[EACH])
{
	const u32 lane = tid() & 15, size = kind == DEV_F32 ? 4 : 2;
	const SHARED u8 *w = base(at + tid() / 16 % 2 * FLOAT_STRIDE +
	    lane * size);
	const SHARED u8 *x = base(at + (FLOAT_ROWS + tid() / 32 * EACH) *
	    FLOAT_STRIDE + lane * 4);
	f32 wk[EACH], xk[EACH];
	u32 k, r, c;

	UNROLL for (k = 0; k < FLOAT_PART; k += 16) {
		if (k >= n)
			break;
		UNROLL for (r = 0; r < EACH; r++) {
			const SHARED u8 *p = w + 2 * r * FLOAT_STRIDE + k * size;

			wk[r] = kind == DEV_F32 ? *(const SHARED f32 *)p :
			    kind == DEV_F16 ? f16_f32(*(const SHARED u16 *)p) :
			    bf16_f32(*(const SHARED u16 *)p);
		}
		UNROLL for (c = 0; c < EACH; c++)
			xk[c] = *(const SHARED f32 *)(x + c * FLOAT_STRIDE +
			    4 * k);
		UNROLL for (r = 0; r < EACH; r++)
			UNROLL for (c = 0; c < EACH; c++)
				sum[r][c] = rn_fma(wk[r], xk[c], sum[r][c]);
	}
}

/* Adds up the partial sums; lane i of sixteen writes column i of the warp's. */
DEV void
end_rows(const struct dev_product *a, const struct dev_columns *columns,
    f32 (*sum)[EACH])
{
	const u32 lane = tid() & 15, column = tid() / 32 * EACH + lane;
	u32 r, c, i, at;
	f32 v, mine = 0.0f;

	UNROLL for (r = 0; r < EACH; r++) {
		UNROLL for (c = 0; c < EACH; c++) {
			v = sum[r][c];
			UNROLL for (i = 8; i > 0; i /= 2)
				v = v + shfl_xor_f32(v, i);
			mine = lane == c ? v : mine;
		}
		at = bid_y() * FLOAT_ROWS + 2 * r + tid() / 16 % 2;
		if (lane < EACH && column < columns->n && at < a->n_out)
			put_product(a, columns->matrix, columns->y[column], at,
			    mine);
	}
}

DEV void
multiply_rows(const struct dev_product *a, const u32 kind)
{
	const struct dev_columns c = find_columns(a, FLOAT_COLUMNS,
	    (SHARED u32 *)SMEM);
	SHARED u8 *memory = SMEM + DEV_COLUMN_BYTES(FLOAT_COLUMNS);
	const u32 parts = (a->n_in + FLOAT_PART - 1) / FLOAT_PART;
	const u32 size = kind == DEV_F32 ? 4 : 2;
	f32 sum[EACH][EACH];
	u32 k, i, j;

	if (c.n == 0)
		return;
	UNROLL for (j = 0; j < EACH; j++)
		UNROLL for (i = 0; i < EACH; i++)
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
			add_part(now, kind, FLOAT_PART, sum);
		else
			add_part(now, kind, a->n_in - k * FLOAT_PART, sum);
	}
	end_rows(a, &c, sum);
}

KERNEL(multiply_f32, struct dev_product) { multiply_rows(&a, DEV_F32); }
KERNEL(multiply_f16, struct dev_product) { multiply_rows(&a, DEV_F16); }
KERNEL(multiply_bf16, struct dev_product) { multiply_rows(&a, DEV_BF16); }
