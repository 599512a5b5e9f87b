/* SPDX-License-Identifier: ISC */
/*
 * mma.h - 256 columns of a product by tensor cores: rows of weights in any layout
 * by columns of activations, both in the memory of the block.
 *
 * A warp multiplies 16 mt rows by 8 nt columns.  Lane 4 g + c has, of each 16 by 8,
 * rows g and g + 8 and columns 2 c and 2 c + 1 of results; e = 0 .. 3 numbers
 * these: row g + e / 2 * 8, column 2 c + e % 2.  Sums of integers are exact, so
 * which of the 32 numbers of a sub-block meet in what step is free: a lane takes
 * eight neighbouring bytes of weights and of activations.
 */
#ifndef QWEN_CUDA_MMA_H
#define QWEN_CUDA_MMA_H

#include "engine/cuda/kernel/columns.h"

enum dev_format { F_Q4_K, F_Q5_K, F_Q6_K, F_Q8_0, F_SUPER, F_BLOCK };

enum { MMA_MT = 2, MMA_NT = 8 };	/* the largest */

/*
 * Bytes of a row's 256 weights, from one row to the next in the block's memory,
 * and the same of activations, so that a warp's loads meet no bank twice.  Of
 * groups, sums of 16 are only for F_SUPER.
 */
DEV u32
weight_bytes(int f, const struct dev_product *a)
{
	return f == F_Q4_K ? 144 : f == F_Q5_K ? 176 : f == F_Q6_K ?
	    DEV_Q6_K_BYTES + 16 : f == F_Q8_0 ? DEV_Q8_0_BYTES :
	    f == F_SUPER ? sizeof(struct dev_super) :
	    (u32)DEV_BLOCK_BYTES(a->span, a->has_min);
}

#define WEIGHT_STRIDE(f) ((f) == F_Q4_K ? 160u : (f) == F_Q5_K ? 224u :	\
	(f) == F_Q6_K ? 240u : (f) == F_Q8_0 ? 288u : (f) == F_SUPER ?	\
	304u : 352u)
#define X_BYTES(f) ((f) == F_SUPER ? 320u : 288u)
#define X_STRIDE(f) ((f) == F_SUPER ? 336u : (f) == F_Q6_K ? 304u : 288u)

/* What 256 columns give: to be added to sums, or kept for them. */
struct mma_out {
	f32		 acc[MMA_MT][MMA_NT][4];	/* if stage is not set */
	SHARED f32x4	*stage;		/* [column][16]: factor and sum, and
					   those of minimums */
	u32		 n;		/* columns */
};

#define LD32(p) (*(const SHARED u32 *)(p))
#define LD64(p) (*(const SHARED u32x2 *)(p))
#define LDF16(p) f16_f32(*(const SHARED u16 *)(p))
#define LDF32(p) (*(const SHARED f32 *)(p))

#define LANE								\
	const u32 lane = tid() & 31, g = lane / 4, c4 = lane % 4
#define EACH(i, n) UNROLL for (i = 0; i < (n); i++)

DEV void
out_put(struct mma_out *o, const int few, u32 m, u32 n, u32 e, f32x4 v,
    const u32 has_min)
{
	LANE;
	u32 column = 2 * c4 + e % 2;

	if (few) {
		if (column < o->n)
			o->stage[column * 16 + g + e / 2 * 8] = v;
		return;
	}
	o->acc[m][n][e] = rn_fma(v[0], v[1], o->acc[m][n][e]);
	if (has_min)
		o->acc[m][n][e] = rn_fma(v[2], v[3], o->acc[m][n][e]);
}

/* Returns column i of the activations; columns after the last repeat it. */
DEV const SHARED u8 *
column_at(const SHARED u8 *xs, const u32 stride, u32 i, const int few, u32 n)
{
	return xs + (few && i >= n ? n - 1 : i) * stride;
}

DEV f32 group_d(const SHARED u8 *x) { return LDF32(x + 280); }

/*
 * c = the sum of minimums, a byte each, times the sums of a q, which have two
 * bytes.
 */
DEV void
multiply_sums(s32 *c, const u32 *min, u32 low, u32 high)
{
	u32 e;

	EACH(e, 4)
		c[e] = 0;
	mma16_us(c, min, &high);
	EACH(e, 4)
		c[e] *= 256;
	mma16_uu(c, min, &low);
}

/* ---- Q4_K, Q5_K: scales of 32 weights */

/* Scales and minimums of sub-blocks 0 .. 3 and 4 .. 7, a byte each. */
DEV void
k_scales(u32x4 head, u32 *scale, u32 *min)
{
	scale[0] = head[1] & 0x3f3f3f3f;
	scale[1] = (head[3] & 0x0f0f0f0f) | (head[1] >> 2 & 0x30303030);
	min[0] = head[2] & 0x3f3f3f3f;
	min[1] = (head[3] >> 4 & 0x0f0f0f0f) | (head[2] >> 2 & 0x30303030);
}

/* Weights of sub-block j, of a row at p. */
DEV u32x2
k_weights(int f, const SHARED u8 *p, u32 j, u32x2 high)
{
	LANE;
	u32x2 w = LD64(p + (f == F_Q4_K ? 16 : 48) + 32 * (j / 2) + 8 * c4);

	(void)g;
	w = (j & 1 ? w >> 4 : w) & 0x0f0f0f0f;
	return f == F_Q4_K ? w : w | (high >> j & 0x01010101) << 4;
}

/*
 * Scale times a is a product by tensor cores, too, of whose 16 columns one has a
 * number: that of the sub-block.
 */
DEV void
step_k(const int f, const SHARED u8 *ws, const SHARED u8 *xs, const u32 mt,
    const u32 nt, struct mma_out *o, const int few)
{
	LANE;
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 sc[MMA_MT][2][2], mn[MMA_MT][2], hd[MMA_MT][2], xa[MMA_NT];
	u32x2 high[MMA_MT][2];
	s32 sum[MMA_MT][MMA_NT][4];
	u32 m, n, e, j;

	ws += g * wst;
	EACH(m, mt) EACH(e, 2) {
		const SHARED u8 *p = ws + (16 * m + 8 * e) * wst;
		u32x4 head = *(const SHARED u32x4 *)p;
		u32 s[2], k[2];

		k_scales(head, s, k);
		hd[m][e] = head[0];
		mn[m][e] = c4 == 0 ? k[0] : c4 == 1 ? k[1] : 0;
		sc[m][e][0] = c4 == 0 ? s[0] : 0;
		sc[m][e][1] = c4 == 1 ? s[1] : 0;
		high[m][e] = f == F_Q5_K ? LD64(p + 16 + 8 * c4) :
		    (u32x2){ 0, 0 };
	}
	EACH(n, nt) {
		xa[n] = LD32(column_at(xs, xst, 8 * n + g, few, o->n) + 256 +
		    4 * (c4 & 1));
		EACH(m, mt) EACH(e, 4)
			sum[m][n][e] = 0;
	}
	EACH(j, 8) {
		u32 w[MMA_MT][4], s[MMA_MT][2];

		EACH(m, mt) EACH(e, 2) {
			u32x2 v = k_weights(f, ws + (16 * m + 8 * e) * wst, j,
			    high[m][e]);

			w[m][e] = v[0];
			w[m][e + 2] = v[1];
			s[m][e] = sc[m][e][j / 4] & 255u << 8 * (j % 4);
		}
		EACH(n, nt) {
			u32x2 x = LD64(column_at(xs, xst, 8 * n + g, few,
			    o->n) + 32 * j + 8 * c4);
			u32 b[2] = { x[0], x[1] };

			EACH(m, mt) {
				s32 dot[4] = { 0, 0, 0, 0 };
				s32 k[4] = { 0, 0, 0, 0 };

				mma_us(dot, w[m], b);
				mma16_uu(k, s[m], &xa[n]);
				EACH(e, 4)
					sum[m][n][e] += k[e] * dot[e];
			}
		}
	}
	EACH(n, nt) {
		const SHARED u8 *p = column_at(xs, xst, 8 * n + g, few, o->n) +
		    264 + 4 * (c4 & 1);
		u32 low = LD32(p), top = LD32(p + 8);
		f32 d[2];

		EACH(e, 2)
			d[e] = group_d(column_at(xs, xst, 8 * n + 2 * c4 + e,
			    few, o->n));
		EACH(m, mt) {
			s32 min[4];

			multiply_sums(min, mn[m], low, top);
			EACH(e, 4) {
				u32 h = hd[m][e / 2];

				out_put(o, few, m, n, e, (f32x4){
				    f16_f32((u16)h) * d[e % 2],
				    (f32)sum[m][n][e],
				    -f16_f32((u16)(h >> 16)) * d[e % 2],
				    (f32)min[e] }, 1);
			}
		}
	}
}

/* ---- Q6_K and F_SUPER: scales of 16 weights, with a sign */

/* Weights of sub-block b of a row at p. */
DEV u32
weights16(int f, const SHARED u8 *p, u32 b)
{
	LANE;
	u32 h = b / 8, q = b / 2 % 4, in = b % 2 * 16 + 4 * c4, low, high;

	(void)g;
	if (f == F_SUPER)
		return LD32(p + 16 * b + 4 * c4);
	low = LD32(p + 64 * h + 32 * (q & 1) + in);
	high = LD32(p + 128 + 32 * h + in);
	low = (low >> (q < 2 ? 0 : 4) & 0x0f0f0f0f) |
	    (high >> 2 * q & 0x03030303) << 4;
	return (low + 0x60606060) ^ 0x80808080;		/* less 32 each */
}

/* The sub-blocks in an order in which neighbours have bytes in common. */
DEV u32
in_order(u32 i)
{
	return i / 8 * 8 + i / 4 % 2 + i / 2 % 2 * 2 + i % 2 * 4;
}

DEV void
step_16(const int f, const struct dev_product *a, const SHARED u8 *ws,
    const SHARED u8 *xs, u32 group, const u32 mt, const u32 nt,
    struct mma_out *o, const int few)
{
	LANE;
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 sc[MMA_MT][2], xa[MMA_NT];
	s32 sum[MMA_MT][MMA_NT][4];
	u32 m, n, e, i;

	ws += g * wst;
	EACH(m, mt) EACH(e, 2)
		sc[m][e] = LD32(ws + (16 * m + 8 * e) * wst +
		    (f == F_Q6_K ? 192 : 256) + 4 * c4);
	EACH(n, nt) {
		xa[n] = *(const SHARED u16 *)(column_at(xs, xst, 8 * n + g,
		    few, o->n) + 256 + 2 * c4);
		xa[n] = prmt(xa[n], 0, 0x1100);
		EACH(m, mt) EACH(e, 4)
			sum[m][n][e] = 0;
	}
	EACH(i, 16) {
		const u32 b = in_order(i);
		const u32 mask = c4 == b / 4 ? 255u << 8 * (b % 4) : 0;
		u32 w[MMA_MT][2], s[MMA_MT][2];

		/* loads stay here, so that there are registers for more warps */
		if (few && i % 4 == 0)
			warp_bar();
		EACH(m, mt) EACH(e, 2) {
			w[m][e] = weights16(f, ws + (16 * m + 8 * e) * wst, b);
			s[m][e] = sc[m][e] & mask;
		}
		EACH(n, nt) {
			u32 x = LD32(column_at(xs, xst, 8 * n + g, few, o->n) +
			    16 * b + 4 * c4);

			EACH(m, mt) {
				s32 dot[4] = { 0, 0, 0, 0 };
				s32 k[4] = { 0, 0, 0, 0 };

				mma16_ss(dot, w[m], &x);
				mma16_ss(k, s[m], &xa[n]);
				EACH(e, 4)
					sum[m][n][e] += k[e] * dot[e];
			}
		}
	}
	EACH(n, nt) EACH(m, mt) {
		s32 min[4] = { 0, 0, 0, 0 };

		if (f == F_SUPER && a->has_min) {
			const SHARED u8 *x = column_at(xs, xst, 8 * n + g, few,
			    o->n) + 288 + 4 * c4;
			const SHARED u8 *p = ws + 16 * m * wst + 272 + 4 * c4;
			u32 mn[2] = { LD32(p), LD32(p + 8 * wst) };

			multiply_sums(min, mn, LD32(x), LD32(x + 16));
		}
		EACH(e, 4) {
			const SHARED u8 *p = ws + (16 * m + e / 2 * 8) * wst;
			f32 d = group_d(column_at(xs, xst, 8 * n + 2 * c4 +
			    e % 2, few, o->n));

			out_put(o, few, m, n, e, (f32x4){ (f == F_Q6_K ?
			    LDF16(p + DEV_Q6_K_BYTES + group % 8 * 2) :
			    LDF32(p + 288)) * d, (f32)sum[m][n][e],
			    f == F_Q6_K ? 0 : -LDF32(p + 292) * d,
			    (f32)min[e] }, f == F_SUPER && a->has_min);
		}
	}
}

/* ---- Q8_0 and F_BLOCK: each block of weights has its d */

/* What a lane has of a group while blocks are added. */
struct mma_part {
	f32	part[MMA_MT][MMA_NT][4], min[MMA_MT][MMA_NT][4];
	s32	sum[MMA_MT][MMA_NT][4];		/* of a block of 64 or 128 */
};

/* 32 weights with a d, or two; for Q8_0 times a, which is exact. */
DEV void
step_32(const int f, const struct dev_product *a, const SHARED u8 *ws,
    const SHARED u8 *xs, const u32 j, const u32 mt, const u32 nt,
    const struct mma_out *o, struct mma_part *t, const int few)
{
	LANE;
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	const u32 span = f == F_Q8_0 ? 32 : a->span, k = 32 * j / span;
	const int is_end = (32 * j + 32) % span == 0;
	u32 w[MMA_MT][4], m, n, e;
	f32 d[MMA_MT][2], dm[MMA_MT][2];

	EACH(m, mt) EACH(e, 2) {
		const SHARED u8 *p = ws + (16 * m + 8 * e) * wst;
		u32x2 v = LD64(p + 32 * j + 8 * c4);

		w[m][e] = v[0];
		w[m][e + 2] = v[1];
		d[m][e] = f == F_Q8_0 ? LDF16(p + 256 + 2 * j) :
		    LDF32(p + 256 + 4 * k);
		dm[m][e] = f == F_BLOCK && a->has_min ?
		    LDF32(p + 256 + 4 * (256 / span + k)) : 0.0f;
	}
	EACH(n, nt) {
		u32x2 x = LD64(column_at(xs, xst, 8 * n + g, few, o->n) +
		    32 * j + 8 * c4);
		u32 b[2] = { x[0], x[1] };
		s32 aj[2], add[2] = { 0, 0 };

		EACH(e, 2) {
			const SHARED u8 *p = column_at(xs, xst, 8 * n +
			    2 * c4 + e, few, o->n) + 256 + j;

			aj[e] = p[0];
			if (f == F_BLOCK && a->has_min)
				add[e] = *(const SHARED s8 *)(p + 16) * 256 +
				    p[8];
		}
		EACH(m, mt) {
			s32 dot[4] = { 0, 0, 0, 0 };

			mma_ss(dot, w[m], b);
			EACH(e, 4) {
				f32 *part = &t->part[m][n][e];

				if (f == F_Q8_0) {
					*part = rn_fma(d[m][e / 2] *
					    (f32)aj[e % 2], (f32)dot[e], *part);
					continue;
				}
				t->sum[m][n][e] += aj[e % 2] * dot[e];
				if (!is_end)
					continue;
				*part = rn_fma(d[m][e / 2],
				    (f32)t->sum[m][n][e], *part);
				t->sum[m][n][e] = 0;
				if (a->has_min)
					t->min[m][n][e] = rn_fma(dm[m][e / 2],
					    (f32)add[e % 2], t->min[m][n][e]);
			}
		}
	}
}

/* 32 weights of a format with a d for 16. */
DEV void
step_2_16(const int f, const SHARED u8 *ws, const SHARED u8 *xs, const u32 j,
    const u32 mt, const u32 nt, const struct mma_out *o, struct mma_part *t,
    const int few)
{
	LANE;
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 m, n, e, i;

	EACH(i, 2) EACH(n, nt) {
		const u32 at = 32 * j + 16 * i + 4 * c4;
		u32 x = LD32(column_at(xs, xst, 8 * n + g, few, o->n) + at);
		s32 aj[2];

		EACH(e, 2)
			aj[e] = column_at(xs, xst, 8 * n + 2 * c4 + e, few,
			    o->n)[256 + j];
		EACH(m, mt) {
			const SHARED u8 *p = ws + 16 * m * wst;
			u32 w[2] = { LD32(p + at), LD32(p + 8 * wst + at) };
			s32 dot[4] = { 0, 0, 0, 0 };

			mma16_ss(dot, w, &x);
			EACH(e, 4)
				t->part[m][n][e] = rn_fma(LDF32(p + e / 2 * 8 *
				    wst + 256 + 4 * (2 * j + i)),
				    (f32)(aj[e % 2] * dot[e]),
				    t->part[m][n][e]);
		}
	}
}

DEV void
step_block(const int f, const struct dev_product *a, const SHARED u8 *ws,
    const SHARED u8 *xs, const u32 mt, const u32 nt, struct mma_out *o,
    const int few)
{
	LANE;
	const u32 xst = X_STRIDE(f);
	struct mma_part t;
	u32 m, n, e, j;

	ws += g * WEIGHT_STRIDE(f);
	EACH(m, mt) EACH(n, nt) EACH(e, 4) {
		t.part[m][n][e] = t.min[m][n][e] = 0.0f;
		t.sum[m][n][e] = 0;
	}
	EACH(j, 8) {
		if (f == F_BLOCK && a->span == 16)
			step_2_16(f, ws, xs, j, mt, nt, o, &t, few);
		else
			step_32(f, a, ws, xs, j, mt, nt, o, &t, few);
	}
	EACH(n, nt) EACH(m, mt) EACH(e, 4) {
		f32 d = group_d(column_at(xs, xst, 8 * n + 2 * c4 + e % 2, few,
		    o->n));

		out_put(o, few, m, n, e, (f32x4){ d, t.part[m][n][e], d,
		    t.min[m][n][e] }, f == F_BLOCK && a->has_min);
	}
}

/*
 * Group number `group' of rows at ws, which begin with the warp's row 0, and of
 * columns at xs.
 */
DEV void
step(const int f, const struct dev_product *a, const SHARED u8 *ws,
    const SHARED u8 *xs, u32 group, const u32 mt, const u32 nt,
    struct mma_out *o, const int few)
{
	if (f == F_Q4_K || f == F_Q5_K)
		step_k(f, ws, xs, mt, nt, o, few);
	else if (f == F_Q6_K || f == F_SUPER)
		step_16(f, a, ws, xs, group, mt, nt, o, few);
	else
		step_block(f, a, ws, xs, mt, nt, o, few);
}

/* ---- copies to the memory of the block */

/*
 * Lane `me' of `all' copies group b of n rows of weights from row r on; rows after
 * the last repeat it.
 */
DEV void
fetch_weights(const int f, const struct dev_product *a, u32 matrix, u32 r,
    u32 n, u32 b, SHARED u8 *to, u32 me, u32 all)
{
	const u32 bytes = weight_bytes(f, a), pieces = bytes / 16;
	const u32 step = f == F_Q6_K ? DEV_Q6_K_BYTES : bytes;
	const GLOBAL u8 *w = a->w + matrix * a->matrix_bytes;
	u32 i;

	for (i = me; i < n * pieces; i += all) {
		u32 row = i / pieces, k = i % pieces, at = r + row;
		u64 in = b * step + k * 16;

		if (f == F_Q6_K && k == pieces - 1)	/* where d is */
			in = (u64)((a->n_in + 255) / 256) * step + b / 8 * 16;
		at = at < a->n_out ? at : a->n_out - 1;
		copy16(to + row * WEIGHT_STRIDE(f) + k * 16,
		    w + at * a->row_bytes + in);
	}
}

/* The same for group b of n columns. */
DEV void
fetch_columns(const int f, const struct dev_product *a,
    const struct dev_columns *c, u32 n, u32 b, SHARED u8 *to, u32 me, u32 all)
{
	const u32 pieces = X_BYTES(f) / 16;
	u32 i;

	for (i = me; i < n * pieces; i += all) {
		u32 column = i / pieces, k = i % pieces;

		copy16(to + column * X_STRIDE(f) + k * 16, (const GLOBAL u8 *)
		    group_of(a, c, column, b) + k * 16);
	}
}

/* ---- few columns, and many */

enum { FEW_WARPS = 8, FEW_COLUMNS = 8, FEW_THREADS = 32 * FEW_WARPS };

/* Bytes of memory of the block for n columns of nb groups. */
#define FEW_SPLIT(nb) ((nb) >= 8 ? 8u : (nb) >= 4 ? 4u : (nb) >= 2 ? 2u : 1u)
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
	u32 k;

	for (k = 0; k < n; k++, stage += step) {
		f32x4 v = *stage;

		acc = rn_fma(v[0], v[1], acc);
		if (has_min)
			acc = rn_fma(v[2], v[3], acc);
	}
	return acc;
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
	const u32 lane = tid() & 31, warp = tid() / 32, stages = FEW_STAGES(nb);
	const u32 r0 = bid_y() * FEW_ROWS(nb), size = FEW_STAGE(f, c.n);
	const int has_min = f == F_Q4_K || f == F_Q5_K || ((f == F_SUPER ||
	    f == F_BLOCK) && a->has_min);
	SHARED u8 *mine = SMEM + DEV_COLUMN_BYTES(FEW_COLUMNS) + warp * stages *
	    size;
	SHARED f32x4 *stage = (SHARED f32x4 *)(SMEM + DEV_COLUMN_BYTES(
	    FEW_COLUMNS) + FEW_WARPS * stages * size);
	f32 acc[4] = { 0, 0, 0, 0 };
	u32 round, b, i, rounds = (nb + split - 1) / split;

	if (c.n == 0)
		return;
	for (round = 0; round < rounds + stages - 1; round++) {
		u32 now = round - (stages - 1);

		b = round * split + warp % split;
		if (b < nb) {
			SHARED u8 *to = mine + round % stages * size;

			fetch_weights(f, a, c.matrix, r0 + warp / split * 16,
			    16, b, to, lane, 32);
			fetch_columns(f, a, &c, c.n, b, to + 16 *
			    WEIGHT_STRIDE(f), lane, 32);
		}
		copy_commit();
		if (round + 1 < stages)
			continue;
		if (stages == 2)
			copy_wait(1);
		else
			copy_wait(0);
		warp_bar();
		b = now * split + warp % split;
		if (b < nb) {
			SHARED u8 *at = mine + now % stages * size;
			struct mma_out o = { .n = c.n, .stage = stage + (now % 2 *
			    FEW_WARPS + warp) * 16 * c.n };

			step(f, a, at, at + 16 * WEIGHT_STRIDE(f), b, 1, 1, &o,
			    1);
		}
		bar();
		/* thread: row of 16, column of 8, then which 16 */
		EACH(i, 4) {
			u32 at = tid() + i * FEW_THREADS;
			u32 tile = at / 128, column = at / 16 % 8;

			if (tile < FEW_WARPS / split && column < c.n)
				acc[i] = add_groups(stage + ((now % 2 *
				    FEW_WARPS + tile * split) * c.n + column) *
				    16 + at % 16, 16 * c.n, nb - now * split <
				    split ? nb - now * split : split, has_min,
				    acc[i]);
		}
	}
	EACH(i, 4) {
		u32 at = tid() + i * FEW_THREADS, column = at / 16 % 8;
		u32 r = r0 + at / 128 * 16 + at % 16;
		f32 other = shfl_xor_f32(acc[i], 16);

		if (at / 128 < FEW_WARPS / split && r < a->n_out &&
		    column < c.n && (column & a->two) == 0)
			put_product(a, c.matrix, c.y[column], r, a->two ?
			    acc[i] + other : acc[i]);
	}
}

/* 64 rows by 16 nt columns; four warps, two by two. */
enum { MANY_THREADS = 128, MANY_ROWS = 64 };
#define MANY_STAGE(f, nt) (MANY_ROWS * WEIGHT_STRIDE(f) + 16 * (nt) * X_STRIDE(f))
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
	struct mma_out o;
	u32 b, m, n, e;

	if (c.n == 0)
		return;
	EACH(m, MMA_MT) EACH(n, nt) EACH(e, 4)
		o.acc[m][n][e] = 0.0f;
	for (b = 0; b <= nb; b++) {
		SHARED u8 *to = memory + b % 2 * MANY_STAGE(f, nt);
		const SHARED u8 *at = memory + (b + 1) % 2 * MANY_STAGE(f, nt);

		if (b < nb) {
			fetch_weights(f, a, c.matrix, r0, MANY_ROWS, b, to,
			    tid(), MANY_THREADS);
			fetch_columns(f, a, &c, 16 * nt, b, to + MANY_ROWS *
			    WEIGHT_STRIDE(f), tid(), MANY_THREADS);
		}
		copy_commit();
		if (b == 0)
			continue;
		copy_wait(1);
		bar();
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
