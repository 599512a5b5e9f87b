/* SPDX-License-Identifier: ISC */
/*
 * multiply.h - products with weights in any layout of integers: for few columns,
 * and for many.  Both copy weights and activations to the block's memory ahead of
 * use.
 */
#ifndef QWEN_CUDA_MULTIPLY_H
#define QWEN_CUDA_MULTIPLY_H

#include "engine/cuda/kernel/mma.h"

/* ---- copies to the memory of the block */

enum { FETCH_ROWS = 2 };

/*
 * Four threads copy a row's 256 weights, or a column's group, 64 bytes at a time;
 * `all' threads copy all / 4 rows at once.
 */
struct mma_fetch {
	const GLOBAL u8	*w[FETCH_ROWS], *x[FETCH_ROWS];
	u32		 d_at;		/* Q6_K, Q3_K: where the row has its d */
	u32		 row, all, columns;
};

/* Rows from row r on, and n columns; rows after the last repeat it. */
DEV struct mma_fetch
fetch_of(const int format, const struct dev_product *a,
    const struct dev_columns *c, u32 r, u32 n, u32 me, u32 all)
{
	struct mma_fetch f = { .row = me / 4, .all = all / 4, .columns = n,
	    .d_at = (a->n_in + 255) / 256 * BLOCK_BYTES(format) };
	u32 i, at;

	EACH(i, FETCH_ROWS) {
		at = r + f.row + i * f.all;
		at = at < a->n_out ? at : a->n_out - 1;
		f.w[i] = a->w + c->matrix * a->matrix_bytes + at * a->row_bytes;
		at = f.row + i * f.all;
		f.x[i] = (const GLOBAL u8 *)group_of(a, c, at < n ? at : 0, 0);
	}
	return f;
}

/* Copies group b of FETCH_ROWS * f->all rows, and of the columns. */
DEV void
fetch(const int f, const struct dev_product *a, const struct mma_fetch *t,
    u32 b, SHARED u8 *w, SHARED u8 *x)
{
	const u32 q = tid() & 3, bytes = weight_bytes(f, a);
	const int d_apart = f == F_Q6_K || f == F_Q3_K;
	const u32 step = d_apart ? BLOCK_BYTES(f) : bytes;
	u32 i, k;

	EACH(i, FETCH_ROWS) {
		const GLOBAL u8 *from = base(t->w[i] + b * step + 16 * q);
		SHARED u8 *to = base(w + (t->row + i * t->all) *
		    WEIGHT_STRIDE(f) + 16 * q);

		EACH(k, f == F_BLOCK ? 5 : (bytes / 16 + 3) / 4) {
			if (d_apart && 4 * k + q == bytes / 16 - 1)
				copy16(to + 64 * k, t->w[i] + t->d_at +
				    b / 8 * 16);
			else if (4 * k + q < bytes / 16)
				copy16(to + 64 * k, from + 64 * k);
		}
		if (t->row + i * t->all >= t->columns)
			continue;
		from = base(t->x[i] + b * sizeof(struct dev_group) + 16 * q);
		to = base(x + (t->row + i * t->all) * X_STRIDE(f) + 16 * q);
		EACH(k, 5) {
			if (4 * k + q < X_BYTES(f) / 16)
				copy16(to + 64 * k, from + 64 * k);
		}
	}
}

/* ---- few columns, and many */

enum { FEW_WARPS = 8, FEW_COLUMNS = 8, FEW_THREADS = 32 * FEW_WARPS };

/* Bytes of shared memory for n columns of nb groups. */
#define FEW_SPLIT(nb) ((nb) > 4 ? 8u : (nb) > 2 ? 4u : (nb) > 1 ? 2u : 1u)
#define FEW_STAGE(f, n) (16 * WEIGHT_STRIDE(f) + (n) * X_STRIDE(f))
#define FEW_STAGES(nb) ((nb) > FEW_SPLIT(nb) ? 2u : 1u)
#define FEW_BYTES(f, n, nb)						\
	(DEV_COLUMN_BYTES(FEW_COLUMNS) + FEW_WARPS * (FEW_STAGES(nb) *	\
	FEW_STAGE(f, n) + 2 * 256 * (n)))
#define FEW_ROWS(nb) (16 * FEW_WARPS / FEW_SPLIT(nb))

/* Adds the parts of n groups that are in stage, in order. */
DEV f32
add_groups(const SHARED f32x4 *stage, u32 step, u32 n, const int has_min,
    f32 acc)
{
	f32x4 v[4];
	u32 k, i;

	ONE_BY_ONE
	for (k = 0; k < n; k += 4, stage += 4 * step) {
		EACH(i, 4)
			v[i] = stage[k + i < n ? i * step : 0];
		EACH(i, 4) {
			if (k + i >= n)
				break;
			acc = rn_fma(v[i][0], v[i][1], acc);
			if (has_min)
				acc = rn_fma(v[i][2], v[i][3], acc);
		}
	}
	return acc;
}

/*
 * Sums of one round, in stage; a thread has one of 16 rows, one of 8 columns, and
 * where rows have fewer groups than there are warps, more of both.  Returns the
 * sum, which the last round writes.
 */
DEV f32
end_round(const int f, const struct dev_product *a, const struct dev_columns *c,
    const SHARED f32x4 *stage, u32 n, const int is_last, f32 sum)
{
	const u32 split = FEW_SPLIT((a->n_in + 255) / 256);
	const int has_min = f == F_Q4_K || f == F_Q5_K || ((HAS_SUMS_16(f) ||
	    f == F_BLOCK) && a->has_min);
	u32 at, r, column;
	f32 other;

	ONE_BY_ONE
	for (at = tid(); at < FEW_WARPS / split * 128; at += FEW_THREADS) {
		column = at / 16 % 8;
		r = (bid_y() * FEW_WARPS / split + at / 128) * 16 + at % 16;
		if (split < FEW_WARPS)
			sum = 0.0f;	/* there is one round */
		if (column < c->n)
			sum = add_groups(stage + (at / 128 * split * c->n +
			    column) * 16 + at % 16, 16 * c->n, n, has_min, sum);
		if (!is_last)
			continue;
		other = shfl_xor_f32(sum, 16);
		if (r < a->n_out && column < c->n && (column & a->two) == 0)
			put_product(a, c->matrix, c->y[column], r, a->two ?
			    sum + other : sum);
	}
	return sum;
}

/*
 * Up to eight columns: each warp has 16 rows and every `split'th group, whose
 * parts other threads add in order.
 */
DEV void
multiply_few(const int f, const struct dev_product *a)
{
	const struct dev_columns c = find_columns(a, FEW_COLUMNS,
	    (SHARED u32 *)SMEM);
	const u32 nb = (a->n_in + 255) / 256, split = FEW_SPLIT(nb);
	const u32 warp = tid() / 32, stages = FEW_STAGES(nb);
	const u32 size = FEW_STAGE(f, c.n), rounds = (nb + split - 1) / split;
	SHARED u8 *mine = SMEM + DEV_COLUMN_BYTES(FEW_COLUMNS) + warp * stages *
	    size;
	SHARED f32x4 *stage = (SHARED f32x4 *)(SMEM + DEV_COLUMN_BYTES(
	    FEW_COLUMNS) + FEW_WARPS * stages * size);
	struct mma_fetch from;
	f32 sum = 0.0f;
	u32 round, b;

	if (c.n == 0)
		return;
	from = fetch_of(f, a, &c, bid_y() * FEW_ROWS(nb) + warp / split * 16, c.n,
	    tid() & 31, 32);
	if (warp % split < nb)
		fetch(f, a, &from, warp % split, mine, mine + 16 *
		    WEIGHT_STRIDE(f));
	copy_commit();
	ONE_BY_ONE
	for (round = 0; round < rounds; round++) {
		SHARED u8 *now = mine + round % 2 * size;
		SHARED u8 *next = mine + (round + 1) % 2 * size;
		SHARED f32x4 *out = stage + round % 2 * FEW_WARPS * 16 * c.n;
		struct mma_out o = { .n = c.n, .stage = out + warp * 16 * c.n };

		b = round * split + warp % split;
		if (b + split < nb)
			fetch(f, a, &from, b + split, next, next + 16 *
			    WEIGHT_STRIDE(f));
		copy_commit();
		copy_wait(1);
		warp_bar();
		if (b < nb)
			step(f, a, now, now + 16 * WEIGHT_STRIDE(f), b, 1, 1,
			    &o, 1);
		bar();
		sum = end_round(f, a, &c, out, nb - round * split < split ?
		    nb - round * split : split, round + 1 == rounds, sum);
	}
}

/* 64 rows by 16 nt columns; four warps, two by two. */
enum {
	MANY_THREADS = 128, MANY_ROWS = 64,
	MANY_REGISTERS = 168	/* so that three blocks have room at once */
};
#define MANY_STAGE(f, nt)						\
	(MANY_ROWS * WEIGHT_STRIDE(f) + 16 * (nt) * X_STRIDE(f))
#define MANY_BYTES(f, nt)						\
	(DEV_COLUMN_BYTES(16 * (nt)) + 2 * MANY_STAGE(f, nt))

DEV void
multiply_many(const int f, const struct dev_product *a, const u32 nt)
{
	LANE;
	const struct dev_columns c = find_columns(a, 16 * nt,
	    (SHARED u32 *)SMEM);
	const u32 warp = tid() / 32, nb = (a->n_in + 255) / 256;
	const u32 r0 = bid_y() * MANY_ROWS;
	SHARED u8 *memory = SMEM + DEV_COLUMN_BYTES(16 * nt);
	struct mma_fetch from;
	struct mma_out o;
	u32 b, m, n, e;

	if (c.n == 0)
		return;
	from = fetch_of(f, a, &c, r0, 16 * nt, tid(), MANY_THREADS);
	EACH(m, MMA_MT) EACH(n, nt) EACH(e, 4)
		o.acc[m][n][e] = 0.0f;
	for (b = 0; b <= nb; b++) {
		SHARED u8 *to = memory + b % 2 * MANY_STAGE(f, nt);
		const SHARED u8 *at = memory + (b + 1) % 2 * MANY_STAGE(f, nt);

		if (b < nb) {
			fetch(f, a, &from, b, to, to + MANY_ROWS *
			    WEIGHT_STRIDE(f));
		}
		copy_commit();
		if (b == 0)
			continue;
		copy_wait(1);
		bar();
		if (warp % 2 * 8 * nt < c.n)	/* else it has no columns */
			step(f, a, at + warp / 2 * 32 * WEIGHT_STRIDE(f), at +
			    MANY_ROWS * WEIGHT_STRIDE(f) + warp % 2 * 8 * nt *
			    X_STRIDE(f), b - 1, MMA_MT, nt, &o, 0);
		bar();
	}
	EACH(m, MMA_MT) EACH(n, nt) EACH(e, 4) {
		u32 r = r0 + warp / 2 * 32 + 16 * m + g + e / 2 * 8;
		u32 column = warp % 2 * 8 * nt + 8 * n + 2 * c4 + e % 2;

		if (r >= a->n_out || column >= c.n || (column & a->two) != 0)
			continue;
		put_product(a, c.matrix, c.y[column], r, a->two ?
		    o.acc[m][n][e] + o.acc[m][n][e + 1 - e % 2 * 2] :
		    o.acc[m][n][e]);
	}
}

#endif
