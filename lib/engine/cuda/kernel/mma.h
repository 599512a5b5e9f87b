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

enum { MMA_MT = 2, MMA_NT = 4 };	/* the largest */

/*
 * Bytes of a row's 256 weights, from one row to the next in the block's memory,
 * and the same of activations, so that a warp's loads meet no bank twice.  Of
 * groups, sums of 16 are only for F_Q2_K and F_SUPER.
 */
DEV u32
weight_bytes(int f, const struct dev_product *a)
{
	return f == F_Q4_K ? 144 : f == F_Q5_K ? 176 : f == F_Q6_K ?
	    DEV_Q6_K_BYTES + 16 : f == F_Q8_0 ? DEV_Q8_0_BYTES :
	    f == F_Q4 || f == F_IQ4_XS ? DEV_NIBBLE_BYTES :
	    f == F_Q3_K ? DEV_NIBBLE_BYTES + 16 : f == F_Q2_K ?
	    DEV_Q2_K_BYTES : f == F_SUPER ? sizeof(struct dev_super) :
	    (u32)DEV_BLOCK_BYTES(a->span, a->has_min);
}

#define WEIGHT_STRIDE(f) ((f) == F_Q4_K ? 160u : (f) == F_Q5_K ? 224u :	\
	(f) == F_Q6_K ? 240u : (f) == F_Q8_0 ? 288u : (f) == F_Q4 ||	\
	(f) == F_IQ4_XS ? 144u : (f) == F_Q3_K || (f) == F_Q2_K ?	\
	176u : (f) == F_SUPER ? 304u : 352u)
#define HAS_SUMS_16(f) ((f) == F_Q2_K || (f) == F_SUPER)
#define X_BYTES(f) (HAS_SUMS_16(f) ? 320u : 288u)
#define X_STRIDE(f) (HAS_SUMS_16(f) ? 336u : (f) == F_Q6_K ||		\
	(f) == F_Q3_K ? 304u : 288u)

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

/* Has the layout a nibble for each weight, in their order? */
DEV int
has_nibbles(int f)
{
	return f == F_Q4 || f == F_IQ4_XS || f == F_Q3_K || f == F_Q2_K;
}

/*
 * A lane has `in' weights at a time.  Columns after the last of a few repeat it.
 */
DEV struct mma_at
find(const int f, const SHARED u8 *ws, const SHARED u8 *xs, const u32 in,
    const int few, u32 n)
{
	const u32 w_stride = WEIGHT_STRIDE(f), x_stride = X_STRIDE(f);

	LANE;
	struct mma_at p;
	u32 c = 2 * c4;

	p.w = base(ws + g * w_stride);
	p.w_in = base(p.w + (has_nibbles(f) ? in / 2 : in) * c4);
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

/* ---- Q4_K, Q5_K, IQ4_XS: scales of 32 weights */

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
k_weights(int f, const struct dev_product *a, const SHARED u8 *p, u32 j,
    u32x2 high)
{
	u32x2 w;
	u32 n;

	if (f == F_IQ4_XS) {
		n = LD32(p + 16 * j);
		return (u32x2){ nibble_values(a->values, n),
		    nibble_values(a->values, n >> 16) };
	}
	w = LD64(p + (f == F_Q4_K ? 16 : 48) + 32 * (j / 2));

	w = (j & 1 ? w >> 4 : w) & 0x0f0f0f0f;
	return f == F_Q4_K ? w : w | (high >> j & 0x01010101) << 4;
}

/* What heads of blocks have: d and dmin, scales, minimums; higher bits; a. */
struct mma_k {
	u32	d[MMA_MT][2], scale[MMA_MT][2][2], min[MMA_MT][2], a[MMA_NT];
	u32x2	high[MMA_MT][2];
};

/* Lane c has the scales and minimums of sub-blocks 4 c .. 4 c + 3, or zeros. */
DEV void
head_k(const int f, const struct mma_at *p, const u32 mt, const u32 nt,
    struct mma_k *h)
{
	const u32 c4 = tid() & 3;
	u32 m, n, e;

	EACH(m, mt) EACH(e, 2) {
		const u32 at = (16 * m + 8 * e) * WEIGHT_STRIDE(f);
		u32x4 head = *(const SHARED u32x4 *)(p->w + at +
		    (f == F_IQ4_XS ? 128 : 0));
		u32 s[2] = { head[0], head[1] }, k[2] = { 0, 0 };

		if (f != F_IQ4_XS)
			k_scales(head, s, k);
		h->d[m][e] = head[f == F_IQ4_XS ? 2 : 0];
		h->min[m][e] = c4 == 0 ? k[0] : c4 == 1 ? k[1] : 0;
		h->scale[m][e][0] = c4 == 0 ? s[0] : 0;
		h->scale[m][e][1] = c4 == 1 ? s[1] : 0;
		h->high[m][e] = f == F_Q5_K ? LD64(p->w_in + at + 16) :
		    (u32x2){ 0, 0 };
	}
	EACH(n, nt)
		h->a[n] = LD32(p->x + 8 * n * X_STRIDE(f) + 256 + 4 * (c4 & 1));
}

/*
 * Adds sub-block j.  Scale times a is a product by tensor cores, too, of whose 16
 * columns one has a number: that of the sub-block.
 */
DEV void
add_k(const int f, const struct dev_product *a, const struct mma_at *p,
    const struct mma_k *h, const u32 j, const u32 mt, const u32 nt,
    s32 (*sum)[MMA_NT][4])
{
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 w[MMA_MT][4], s[MMA_MT][2], m, n, e;

	EACH(m, mt) EACH(e, 2) {
		u32x2 v = k_weights(f, a, p->w_in + (16 * m + 8 * e) * wst, j,
		    h->high[m][e]);

		w[m][e] = v[0];
		w[m][e + 2] = v[1];
		s[m][e] = h->scale[m][e][j / 4] & 255u << 8 * (j % 4);
	}
	EACH(n, nt) {
		u32x2 x = LD64(p->x_in + 8 * n * xst + 32 * j);
		u32 b[2] = { x[0], x[1] };

		EACH(m, mt) {
			s32 dot[4] = { 0, 0, 0, 0 };
			s32 k[4] = { 0, 0, 0, 0 };

			if (f == F_IQ4_XS) {
				mma_ss(dot, w[m], b);
				mma16_ss(k, s[m], &h->a[n]);
			} else {
				mma_us(dot, w[m], b);
				mma16_uu(k, s[m], &h->a[n]);
			}
			EACH(e, 4)
				sum[m][n][e] += k[e] * dot[e];
		}
	}
}

DEV void
step_k(const int f, const struct dev_product *a, const struct mma_at *p,
    const u32 mt, const u32 nt, struct mma_out *o, const int few)
{
	const u32 xst = X_STRIDE(f), half = tid() & 1;
	s32 sum[MMA_MT][MMA_NT][4], min[4] = { 0, 0, 0, 0 };
	struct mma_k h;
	u32 m, n, e, j;

	head_k(f, p, mt, nt, &h);
	EACH(m, mt) EACH(n, nt) EACH(e, 4)
		sum[m][n][e] = 0;
	EACH(j, 8)
		add_k(f, a, p, &h, j, mt, nt, sum);
	EACH(n, nt) {
		const SHARED u8 *x = p->x + 8 * n * xst + 264 + 4 * half;
		u32 low = LD32(x), high = LD32(x + 8);
		f32 d[2];

		EACH(e, 2)
			d[e] = group_d(p->c[e] + 8 * n * xst);
		EACH(m, mt) {
			if (f != F_IQ4_XS)
				multiply_sums(min, h.min[m], low, high);
			EACH(e, 4) {
				u32 k = h.d[m][e / 2];

				out_put(o, few, m, n, e, (f32x4){
				    f16_f32((u16)k) * d[e % 2],
				    (f32)sum[m][n][e],
				    -f16_f32((u16)(k >> 16)) * d[e % 2],
				    (f32)min[e] }, f != F_IQ4_XS);
			}
		}
	}
}

/* ---- Q6_K, Q3_K, Q2_K and F_SUPER: scales of 16 weights, with a sign */

/* Where a row has its scales. */
#define SCALES_16(f) ((f) == F_Q6_K ? 192 : (f) == F_SUPER ? 256 : 128)

/* Weights of sub-block b; p is the lane's share of a row. */
DEV u32
weights16(int f, const struct dev_product *a, const SHARED u8 *p, u32 b)
{
	u32 h = b / 8, q = b / 2 % 4, in = b % 2 * 16, low, high;

	if (f == F_SUPER)
		return LD32(p + 16 * b);
	if (has_nibbles(f))
		return nibble_values(a->values,
		    *(const SHARED u16 *)(p + 8 * b));
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
add_16(const int f, const struct dev_product *a, const struct mma_at *p,
    const u32 mt, const u32 nt, s32 (*sum)[MMA_NT][4])
{
	const u32 c4 = tid() & 3, wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 sc[MMA_MT][2], xa[MMA_NT], m, n, e, i;

	EACH(m, mt) EACH(e, 2)
		sc[m][e] = LD32(p->w + (16 * m + 8 * e) * wst +
		    SCALES_16(f) + 4 * c4);
	EACH(n, nt) {
		xa[n] = *(const SHARED u16 *)(p->x + 8 * n * xst + 256 +
		    2 * c4);
		xa[n] = prmt(xa[n], 0, 0x1100);
	}
	EACH(i, 16) {
		const u32 b = in_order(i);
		u32 w[MMA_MT][2], s[MMA_MT][2];

		EACH(m, mt) EACH(e, 2) {
			w[m][e] = weights16(f, a, p->w_in + (16 * m + 8 * e) *
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
add_16_few(const int f, const struct dev_product *a, const struct mma_at *p,
    s32 *sum)
{
	const u32 wst = WEIGHT_STRIDE(f);
	u32 i, e, b;

	EACH(i, 8) {
		const u32 j = i / 4 * 4 + i / 2 % 2 + i % 2 * 2;
		s32 part[4] = { 0, 0, 0, 0 };

		UNROLL for (b = 2 * j; b < 2 * j + 2; b++) {
			const SHARED u8 *sc = p->w + SCALES_16(f) + b;
			u32 w[2] = { weights16(f, a, p->w_in, b),
			    weights16(f, a, p->w_in + 8 * wst, b) };
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
		add_16_few(f, a, p, sum[0][0]);
	else
		add_16(f, a, p, mt, nt, sum);
	EACH(n, nt) EACH(m, mt) {
		s32 min[4] = { 0, 0, 0, 0 };

		if (HAS_SUMS_16(f) && a->has_min) {
			const SHARED u8 *x = p->x_in + 8 * n * xst + 288;
			const SHARED u8 *k = p->w + 16 * m * wst +
			    SCALES_16(f) + 16 + 4 * (tid() & 3);
			u32 mn[2] = { LD32(k), LD32(k + 8 * wst) };

			multiply_sums(min, mn, LD32(x), LD32(x + 16));
		}
		EACH(e, 4) {
			const SHARED u8 *w = p->w + (16 * m + e / 2 * 8) * wst;
			f32 d = group_d(p->c[e % 2] + 8 * n * xst);

			w += SCALES_16(f) + 16;
			out_put(o, few, m, n, e, (f32x4){ (HAS_SUMS_16(f) ?
			    LDF32(w + 16) : LDF16(w + group % 8 * 2)) * d,
			    (f32)sum[m][n][e], HAS_SUMS_16(f) ?
			    -LDF32(w + 20) * d : 0, (f32)min[e] },
			    HAS_SUMS_16(f) && a->has_min);
		}
	}
}

/* ---- Q8_0, Q4 and F_BLOCK: each block of weights has its d */

/*
 * What a lane has of a group: a of its columns, eight d of its rows of Q8_0, and
 * sums.
 */
struct mma_part {
	u32x2	a[MMA_NT][2];
	u32x4	d[MMA_MT][2];
	f32	part[MMA_MT][MMA_NT][4], min[MMA_MT][MMA_NT][4];
	s32	sum[MMA_MT][MMA_NT][4];		/* of a block of 64 or 128 */
};

DEV void
part_init(const int f, const struct mma_at *p, const u32 mt, const u32 nt,
    struct mma_part *t)
{
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 m, n, e;

	EACH(n, nt) EACH(e, 2)
		t->a[n][e] = LD64(p->c[e] + 8 * n * xst + 256);
	EACH(m, mt) EACH(e, 2)
		if (f == F_Q8_0)
			t->d[m][e] = *(const SHARED u32x4 *)(p->w +
			    (16 * m + 8 * e) * wst + 256);
	EACH(m, mt) EACH(n, nt) EACH(e, 4) {
		t->part[m][n][e] = t->min[m][n][e] = 0.0f;
		t->sum[m][n][e] = 0;
	}
}

/* Returns number i of bytes. */
DEV s32 byte_at(u32x2 v, u32 i) { return (s32)(v[i / 4] >> 8 * (i % 4) & 255); }

/* 32 weights of Q8_0 or Q4: d times a is exact. */
DEV void
step_q8_0(const int f, const struct dev_product *a, const struct mma_at *p,
    const u32 j, const u32 mt, const u32 nt, struct mma_part *t)
{
	const u32 wst = WEIGHT_STRIDE(f), xst = X_STRIDE(f);
	u32 w[MMA_MT][4], m, n, e;
	f32 d[MMA_MT][2];

	EACH(m, mt) EACH(e, 2) {
		const u32 row = (16 * m + 8 * e) * wst;
		u32 bits, all;
		u32x2 v;

		if (f == F_Q4) {	/* few registers are left */
			all = LD32(p->w_in + row + 16 * j);
			v[0] = nibble_values(a->values, all);
			v[1] = nibble_values(a->values, all >> 16);
			bits = *(const SHARED u16 *)(p->w + row + 128 + 2 * j);
		} else {
			v = LD64(p->w_in + row + 32 * j);
			bits = t->d[m][e][j / 2] >> 16 * (j % 2) & 0xffff;
		}
		w[m][e] = v[0];
		w[m][e + 2] = v[1];
		d[m][e] = d_of(f, a, bits);
	}
	EACH(n, nt) {
		u32x2 x = LD64(p->x_in + 8 * n * xst + 32 * j);
		u32 b[2] = { x[0], x[1] };
		f32 aj[2] = { (f32)byte_at(t->a[n][0], j),
		    (f32)byte_at(t->a[n][1], j) };

		EACH(m, mt) {
			s32 dot[4] = { 0, 0, 0, 0 };

			mma_ss(dot, w[m], b);
			EACH(e, 4)
				t->part[m][n][e] = rn_fma(d[m][e / 2] *
				    aj[e % 2], (f32)dot[e], t->part[m][n][e]);
		}
	}
}

/* 32 weights of a format with a d for 32 or more. */
DEV void
step_32(const struct dev_product *a, const struct mma_at *p, const u32 j,
    const u32 mt, const u32 nt, struct mma_part *t)
{
	const u32 wst = WEIGHT_STRIDE(F_BLOCK), xst = X_STRIDE(F_BLOCK);
	const u32 span = a->span, k = 32 * j / span;
	const int is_end = (32 * j + 32) % span == 0;
	u32 w[MMA_MT][4], m, n, e;
	f32 d[MMA_MT][2], dm[MMA_MT][2];

	EACH(m, mt) EACH(e, 2) {
		const SHARED u8 *at = p->w + (16 * m + 8 * e) * wst + 256;
		u32x2 v = LD64(p->w_in + (16 * m + 8 * e) * wst + 32 * j);

		w[m][e] = v[0];
		w[m][e + 2] = v[1];
		d[m][e] = LDF32(at + 4 * k);
		dm[m][e] = a->has_min ? LDF32(at + 4 * (256 / span + k)) : 0.0f;
	}
	EACH(n, nt) {
		u32x2 x = LD64(p->x_in + 8 * n * xst + 32 * j);
		u32 b[2] = { x[0], x[1] };
		s32 add[2] = { 0, 0 };

		EACH(e, 2) {
			const SHARED u8 *c = p->c[e] + 8 * n * xst + 264 + j;

			if (a->has_min)
				add[e] = *(const SHARED s8 *)(c + 8) * 256 +
				    c[0];
		}
		EACH(m, mt) {
			s32 dot[4] = { 0, 0, 0, 0 };

			mma_ss(dot, w[m], b);
			EACH(e, 4) {
				t->sum[m][n][e] += byte_at(t->a[n][e % 2], j) *
				    dot[e];
				if (!is_end)
					continue;
				t->part[m][n][e] = rn_fma(d[m][e / 2],
				    (f32)t->sum[m][n][e], t->part[m][n][e]);
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
step_2_16(const struct mma_at *p, const u32 j, const u32 mt, const u32 nt,
    struct mma_part *t)
{
	const u32 wst = WEIGHT_STRIDE(F_BLOCK), xst = X_STRIDE(F_BLOCK);
	const u32 c4 = tid() & 3;
	u32 m, n, e, i;

	EACH(i, 2) EACH(n, nt) {
		const u32 at = 32 * j + 16 * i + 4 * c4;
		u32 x = LD32(p->x + 8 * n * xst + at);

		EACH(m, mt) {
			const SHARED u8 *r = p->w + 16 * m * wst;
			u32 w[2] = { LD32(r + at), LD32(r + 8 * wst + at) };
			s32 dot[4] = { 0, 0, 0, 0 };

			mma16_ss(dot, w, &x);
			EACH(e, 4)
				t->part[m][n][e] = rn_fma(LDF32(r + e / 2 * 8 *
				    wst + 256 + 4 * (2 * j + i)),
				    (f32)(byte_at(t->a[n][e % 2], j) * dot[e]),
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

	part_init(f, p, mt, nt, &t);
	EACH(j, 8) {
		if (f != F_BLOCK)
			step_q8_0(f, a, p, j, mt, nt, &t);
		else if (a->span == 16)
			step_2_16(p, j, mt, nt, &t);
		else
			step_32(a, p, j, mt, nt, &t);
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
	const int has_16 = f == F_Q6_K || f == F_Q3_K || HAS_SUMS_16(f);
	const struct mma_at p = find(f, ws, xs, has_16 ? 4 : 8, few, o->n);

	if (f == F_Q4_K || f == F_Q5_K || f == F_IQ4_XS)
		step_k(f, a, &p, mt, nt, o, few);
	else if (has_16)
		step_16(f, a, &p, group, mt, nt, o, few);
	else
		step_block(f, a, &p, mt, nt, o, few);
}

#endif
