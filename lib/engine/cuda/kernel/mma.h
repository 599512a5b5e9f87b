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
		/*
		 * columns after the last have what it has; without a condition
		 * the compiler leaves no work for later
		 */
		column = column < o->n ? column : o->n - 1;
		o->stage[column * 16 + g + e / 2 * 8] = v;
		return;
	}
	o->acc[m][n][e] = rn_fma(v[0], v[1], o->acc[m][n][e]);
	if (has_min)
		o->acc[m][n][e] = rn_fma(v[2], v[3], o->acc[m][n][e]);
}

/*
 * Where a lane begins: in its first row of weights, at its share of each 16 or 32
 * of them, and the same in column g; in its two columns of results.
 */
struct mma_at {
	const SHARED u8	*w, *w_in, *x, *x_in, *c[2];
};

/*
 * A lane has `in' bytes at a time.  Columns after the last of a few repeat it.
 */
DEV struct mma_at
find(const SHARED u8 *ws, const SHARED u8 *xs, const u32 w_stride,
    const u32 x_stride, const u32 in, const int few, u32 n)
{
	LANE;
	struct mma_at p;
	u32 c = 2 * c4;

	p.w = base(ws + g * w_stride);
	p.w_in = base(p.w + in * c4);
	p.x = base(xs + (few && g >= n ? n - 1 : g) * x_stride);
	p.x_in = base(p.x + in * c4);
	p.c[0] = base(xs + (few && c >= n ? n - 1 : c) * x_stride);
	p.c[1] = few ? base(xs + (c + 1 >= n ? n - 1 : c + 1) * x_stride) :
	    p.c[0] + x_stride;
	return p;
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

/* Weights of sub-block j; p is the lane's share of a row. */
DEV u32x2
k_weights(int f, const SHARED u8 *p, u32 j, u32x2 high)
{
	u32x2 w = LD64(p + (f == F_Q4_K ? 16 : 48) + 32 * (j / 2));

	w = (j & 1 ? w >> 4 : w) & 0x0f0f0f0f;
	return f == F_Q4_K ? w : w | (high >> j & 0x01010101) << 4;
}

/*
 * Scale times a is a product by tensor cores, too, of whose 16 columns one has a
 * number: that of the sub-block.
 */
DEV void
step_k(const int f, const struct mma_at *p, const u32 mt, const u32 nt,
    struct mma_out *o, const int few)
{
	const u32 c4 = tid() & 3;
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 sc[MMA_MT][2][2], mn[MMA_MT][2], hd[MMA_MT][2], xa[MMA_NT];
	u32x2 high[MMA_MT][2];
	s32 sum[MMA_MT][MMA_NT][4];
	u32 m, n, e, j;

	EACH(m, mt) EACH(e, 2) {
		const u32 at = (16 * m + 8 * e) * wst;
		u32x4 head = *(const SHARED u32x4 *)(p->w + at);
		u32 s[2], k[2];

		k_scales(head, s, k);
		hd[m][e] = head[0];
		mn[m][e] = c4 == 0 ? k[0] : c4 == 1 ? k[1] : 0;
		sc[m][e][0] = c4 == 0 ? s[0] : 0;
		sc[m][e][1] = c4 == 1 ? s[1] : 0;
		high[m][e] = f == F_Q5_K ? LD64(p->w_in + at + 16) :
		    (u32x2){ 0, 0 };
	}
	EACH(n, nt) {
		xa[n] = LD32(p->x + 8 * n * xst + 256 + 4 * (c4 & 1));
		EACH(m, mt) EACH(e, 4)
			sum[m][n][e] = 0;
	}
	EACH(j, 8) {
		u32 w[MMA_MT][4], s[MMA_MT][2];

		EACH(m, mt) EACH(e, 2) {
			u32x2 v = k_weights(f, p->w_in + (16 * m + 8 * e) *
			    wst, j, high[m][e]);

			w[m][e] = v[0];
			w[m][e + 2] = v[1];
			s[m][e] = sc[m][e][j / 4] & 255u << 8 * (j % 4);
		}
		EACH(n, nt) {
			u32x2 x = LD64(p->x_in + 8 * n * xst + 32 * j);
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
		const SHARED u8 *x = p->x + 8 * n * xst + 264 + 4 * (c4 & 1);
		u32 low = LD32(x), top = LD32(x + 8);
		f32 d[2];

		EACH(e, 2)
			d[e] = group_d(p->c[e] + 8 * n * xst);
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

/* Where a row has its scales. */
#define SCALES_16(f) ((f) == F_Q6_K ? 192 : 256)

/* Weights of sub-block b; p is the lane's share of a row. */
DEV u32
weights16(int f, const SHARED u8 *p, u32 b)
{
	u32 h = b / 8, q = b / 2 % 4, in = b % 2 * 16, low, high;

	if (f == F_SUPER)
		return LD32(p + 16 * b);
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

/*
 * Adds the sub-blocks of mt by nt tiles.  Scale times a is a product by tensor
 * cores, as in step_k.
 */
DEV void
add_16(const int f, const struct mma_at *p, const u32 mt, const u32 nt,
    s32 (*sum)[MMA_NT][4])
{
	const u32 c4 = tid() & 3, wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 sc[MMA_MT][2], xa[MMA_NT], m, n, e, i;

	EACH(m, mt) EACH(e, 2)
		sc[m][e] = LD32(p->w_in + (16 * m + 8 * e) * wst +
		    SCALES_16(f));
	EACH(n, nt) {
		xa[n] = *(const SHARED u16 *)(p->x + 8 * n * xst + 256 +
		    2 * c4);
		xa[n] = prmt(xa[n], 0, 0x1100);
	}
	EACH(i, 16) {
		const u32 b = in_order(i);
		u32 w[MMA_MT][2], s[MMA_MT][2];

		EACH(m, mt) EACH(e, 2) {
			w[m][e] = weights16(f, p->w_in + (16 * m + 8 * e) *
			    wst, b);
			s[m][e] = c4 == b / 4 ? sc[m][e] & 255u << 8 * (b % 4) :
			    0;
		}
		EACH(n, nt) {
			u32 x = LD32(p->x_in + 8 * n * xst + 16 * b);

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
}

/* The same for one tile, with fewer registers, so that more warps have some. */
DEV void
add_16_few(const int f, const struct mma_at *p, s32 *sum)
{
	const u32 wst = WEIGHT_STRIDE(f);
	u32 i, e, b;

	EACH(i, 8) {
		const u32 j = i / 4 * 4 + i / 2 % 2 + i % 2 * 2;
		s32 part[4] = { 0, 0, 0, 0 };

		UNROLL for (b = 2 * j; b < 2 * j + 2; b++) {
			const SHARED u8 *sc = p->w + SCALES_16(f) + b;
			u32 w[2] = { weights16(f, p->w_in, b),
			    weights16(f, p->w_in + 8 * wst, b) };
			u32 x = LD32(p->x_in + 16 * b);
			s32 dot[4] = { 0, 0, 0, 0 };

			mma16_ss(dot, w, &x);
			EACH(e, 4)
				part[e] += *(const SHARED s8 *)(sc + e / 2 * 8 *
				    wst) * dot[e];
		}
		EACH(e, 4)
			sum[e] += p->c[e % 2][256 + j] * part[e];
	}
}

DEV void
step_16(const int f, const struct dev_product *a, const struct mma_at *p,
    u32 group, const u32 mt, const u32 nt, struct mma_out *o, const int few)
{
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	s32 sum[MMA_MT][MMA_NT][4];
	u32 m, n, e;

	EACH(m, mt) EACH(n, nt) EACH(e, 4)
		sum[m][n][e] = 0;
	if (few)
		add_16_few(f, p, sum[0][0]);
	else
		add_16(f, p, mt, nt, sum);
	EACH(n, nt) EACH(m, mt) {
		s32 min[4] = { 0, 0, 0, 0 };

		if (f == F_SUPER && a->has_min) {
			const SHARED u8 *x = p->x_in + 8 * n * xst + 288;
			const SHARED u8 *k = p->w_in + 16 * m * wst + 272;
			u32 mn[2] = { LD32(k), LD32(k + 8 * wst) };

			multiply_sums(min, mn, LD32(x), LD32(x + 16));
		}
		EACH(e, 4) {
			const SHARED u8 *w = p->w + (16 * m + e / 2 * 8) * wst;
			f32 d = group_d(p->c[e % 2] + 8 * n * xst);

			out_put(o, few, m, n, e, (f32x4){ (f == F_Q6_K ?
			    LDF16(w + DEV_Q6_K_BYTES + group % 8 * 2) :
			    LDF32(w + 288)) * d, (f32)sum[m][n][e],
			    f == F_Q6_K ? 0 : -LDF32(w + 292) * d,
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
step_32(const int f, const struct dev_product *a, const struct mma_at *p,
    const u32 j, const u32 mt, const u32 nt, struct mma_part *t)
{
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	const u32 span = f == F_Q8_0 ? 32 : a->span, k = 32 * j / span;
	const int is_end = (32 * j + 32) % span == 0;
	u32 w[MMA_MT][4], m, n, e;
	f32 d[MMA_MT][2], dm[MMA_MT][2];

	EACH(m, mt) EACH(e, 2) {
		const SHARED u8 *at = p->w + (16 * m + 8 * e) * wst;
		u32x2 v = LD64(p->w_in + (16 * m + 8 * e) * wst + 32 * j);

		w[m][e] = v[0];
		w[m][e + 2] = v[1];
		d[m][e] = f == F_Q8_0 ? LDF16(at + 256 + 2 * j) :
		    LDF32(at + 256 + 4 * k);
		dm[m][e] = f == F_BLOCK && a->has_min ?
		    LDF32(at + 256 + 4 * (256 / span + k)) : 0.0f;
	}
	EACH(n, nt) {
		u32x2 x = LD64(p->x_in + 8 * n * xst + 32 * j);
		u32 b[2] = { x[0], x[1] };
		s32 aj[2], add[2] = { 0, 0 };

		EACH(e, 2) {
			const SHARED u8 *c = p->c[e] + 8 * n * xst + 256 + j;

			aj[e] = c[0];
			if (f == F_BLOCK && a->has_min)
				add[e] = *(const SHARED s8 *)(c + 16) * 256 +
				    c[8];
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
step_2_16(const int f, const struct mma_at *p, const u32 j, const u32 mt,
    const u32 nt, struct mma_part *t)
{
	const u32 c4 = tid() & 3;
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 m, n, e, i;

	EACH(i, 2) EACH(n, nt) {
		const u32 at = 32 * j + 16 * i + 4 * c4;
		u32 x = LD32(p->x + 8 * n * xst + at);
		s32 aj[2];

		EACH(e, 2)
			aj[e] = (p->c[e] + 8 * n * xst)[256 + j];
		EACH(m, mt) {
			const SHARED u8 *r = p->w + 16 * m * wst;
			u32 w[2] = { LD32(r + at), LD32(r + 8 * wst + at) };
			s32 dot[4] = { 0, 0, 0, 0 };

			mma16_ss(dot, w, &x);
			EACH(e, 4)
				t->part[m][n][e] = rn_fma(LDF32(r + e / 2 * 8 *
				    wst + 256 + 4 * (2 * j + i)),
				    (f32)(aj[e % 2] * dot[e]),
				    t->part[m][n][e]);
		}
	}
}

DEV void
step_block(const int f, const struct dev_product *a, const struct mma_at *p,
    const u32 mt, const u32 nt, struct mma_out *o, const int few)
{
	const u32 xst = X_STRIDE(f);
	struct mma_part t;
	u32 m, n, e, j;

	EACH(m, mt) EACH(n, nt) EACH(e, 4) {
		t.part[m][n][e] = t.min[m][n][e] = 0.0f;
		t.sum[m][n][e] = 0;
	}
	EACH(j, 8) {
		if (f == F_BLOCK && a->span == 16)
			step_2_16(f, p, j, mt, nt, &t);
		else
			step_32(f, a, p, j, mt, nt, &t);
	}
	EACH(n, nt) EACH(m, mt) EACH(e, 4) {
		f32 d = group_d(p->c[e % 2] + 8 * n * xst);

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
	const struct mma_at p = find(ws, xs, WEIGHT_STRIDE(f), X_STRIDE(f),
	    f == F_Q6_K || f == F_SUPER ? 4 : 8, few, o->n);

	if (f == F_Q4_K || f == F_Q5_K)
		step_k(f, &p, mt, nt, o, few);
	else if (f == F_Q6_K || f == F_SUPER)
		step_16(f, a, &p, group, mt, nt, o, few);
	else
		step_block(f, a, &p, mt, nt, o, few);
}

/* ---- copies to the memory of the block */

enum { FETCH_ROWS = 2 };

/*
 * Four threads copy a row's 256 weights, or a column's group, 64 bytes at a time;
 * `all' threads copy all / 4 rows at once.
 */
struct mma_fetch {
	const GLOBAL u8	*w[FETCH_ROWS], *x[FETCH_ROWS];
	u32		 d_at;		/* Q6_K: where the row has its d */
	u32		 row, all, columns;
};

/* Rows from row r on, and n columns; rows after the last repeat it. */
DEV struct mma_fetch
fetch_of(const struct dev_product *a, const struct dev_columns *c, u32 r,
    u32 n, u32 me, u32 all)
{
	struct mma_fetch f = { .row = me / 4, .all = all / 4, .columns = n,
	    .d_at = (a->n_in + 255) / 256 * DEV_Q6_K_BYTES };
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
	const u32 step = f == F_Q6_K ? DEV_Q6_K_BYTES : bytes;
	u32 i, k;

	EACH(i, FETCH_ROWS) {
		const GLOBAL u8 *from = base(t->w[i] + b * step + 16 * q);
		SHARED u8 *to = base(w + (t->row + i * t->all) *
		    WEIGHT_STRIDE(f) + 16 * q);

		EACH(k, f == F_BLOCK ? 5 : (bytes / 16 + 3) / 4) {
			if (f == F_Q6_K && 4 * k + q == bytes / 16 - 1)
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

/* Bytes of memory of the block for n columns of nb groups. */
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
	f32x4 v;
	u32 k;

	ONE_BY_ONE
	for (k = 0; k < n; k++, stage += step) {
		v = *stage;
		acc = rn_fma(v[0], v[1], acc);
		if (has_min)
			acc = rn_fma(v[2], v[3], acc);
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
	const int has_min = f == F_Q4_K || f == F_Q5_K || ((f == F_SUPER ||
	    f == F_BLOCK) && a->has_min);
	u32 at, r, column;
	f32 other;

	ONE_BY_ONE
	for (at = tid(); at < FEW_WARPS / split * 128; at += FEW_THREADS) {
		column = at / 16 % 8;
		r = bid_y() * (16 * FEW_WARPS / split) + at / 128 * 16 + at % 16;
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
	from = fetch_of(a, &c, bid_y() * FEW_ROWS(nb) + warp / split * 16, c.n,
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
	struct mma_fetch from;
	struct mma_out o;
	u32 b, m, n, e;

	if (c.n == 0)
		return;
	from = fetch_of(a, &c, r0, 16 * nt, tid(), MANY_THREADS);
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
