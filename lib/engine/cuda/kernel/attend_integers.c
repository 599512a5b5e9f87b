/* SPDX-License-Identifier: ISC */
/*
 * attend_integers.c - rows of a session attend to keys and values that are
 * integers: 16 queries of a key head and a chunk of keys, by tensor cores, whose
 * sums are exact.
 *
 * For scores a warp has 64 keys, for values every fourth 32 dimensions.  Queries
 * and weights have 16 bits: a plane of their high bytes and one of their low ones.
 *
 * Sums are exact, so columns of a product may be keys, or dimensions, in any
 * order.  So both are read as 32-bit words in the order in which they lie.
 */
#include "engine/cuda/kernel/attend.h"
#include "engine/cuda/kernel/softmax.h"

enum {
	M = DEV_INTEGERS,
	THREADS = DEV_INTEGERS_THREADS,
	P_STEP = DEV_CHUNK + 8,		/* so that rows are in other banks */
	BLOCKS = DEV_CHUNK / QWEN_KV_BLOCK
};

struct part {
	u32		 d, q_step;	/* bytes from two queries to the next */
	SHARED u64	*block;		/* [BLOCKS] addresses */
	SHARED u8	*high, *low;	/* [M / 2][q_step] planes of queries */
	SHARED f32	*p;		/* [M][P_STEP] weights */
	SHARED f32	*most;		/* [DEV_CHUNK] largest scale of a value */
	SHARED f32	*each;		/* [4][M] */
	SHARED f32	*scale;		/* [M] of queries */
	SHARED s32	*lim;		/* [M] keys that a query attends to */
	SHARED u32	*at;		/* [M] its number among all; ~0: none */
	u64		 k, v;		/* where a head's are in a block */
	u32		 end;		/* keys that any query attends to */
};

/* ---- what a block works on */

/* Says which queries the block has: those from `first' on of n. */
DEV void
take_queries(const struct dev_attend *a, struct part *c, u32 head, u32 row,
    u32 first, u32 n)
{
	const u32 each = a->n_head / a->n_head_kv, m = first + tid();
	const u32 r = row + m / each;
	const GLOBAL struct dev_row *in = a->pass.row + a->first + r;
	u32 i;

	if (tid() < M) {
		const int used = m < n && in->wanted;

		c->lim[tid()] = used ? (s32)(in->slot + 1) -
		    (s32)(bid_y() * DEV_CHUNK) : 0;
		c->at[tid()] = used && c->lim[tid()] > 0 ? r * a->n_head +
		    head * each + m % each : ~0u;
	}
	bar();
	c->end = 0;
	for (i = 0; i < M; i++)
		if (c->lim[i] > (s32)c->end)
			c->end = (u32)c->lim[i];
	c->end = c->end < DEV_CHUNK ? c->end : DEV_CHUNK;
}

/*
 * Puts the bytes of the queries to their planes.  Of each 32 dimensions, pair
 * i + 4 j is number j of lane i, and a lane has those of queries g and g + 8 as a
 * fragment.
 */
DEV void
copy_queries(const struct dev_attend *a, const struct part *c)
{
	const u32 lane = tid() % 32, of_lane = lane / 16 * 64 + lane % 4 * 16 +
	    lane % 16 / 8 * 8 + lane % 8 / 4 * 2;
	u32 q, i;

	for (q = tid() / 32; q < M; q += THREADS / 32) {
		const u32 at = c->at[q], to = of_lane + q % 8 * c->q_step +
		    q / 8 * 4;
		const GLOBAL f32 *from = a->in + (u64)(a->first + at /
		    a->n_head) * a->in_width + at % a->n_head * a->step;

		for (i = 0; i * 32 + lane < c->d / 2; i++) {
			const u32 two = at == ~0u ? 0 :
			    ((const GLOBAL u32 *)from)[i * 32 + lane];

			*(SHARED u16 *)(c->high + to + i * 128) =
			    (u16)prmt(two, 0, 0x4431);
			*(SHARED u16 *)(c->low + to + i * 128) =
			    (u16)prmt(two, 0, 0x4420);
		}
		if (lane == 0)
			c->scale[q] = at == ~0u ? 0.0f : from[c->d / 2];
	}
}

/* Sets the largest magnitude of a value's scales, for each key. */
DEV void
largest_scales(const struct part *c)
{
	u32 i, t;

	for (i = tid(); i < DEV_CHUNK; i += THREADS) {
		const GLOBAL u16 *p = (const GLOBAL u16 *)(c->block[i / 16] +
		    c->v) + i % 16;
		f32 top = 0.0f;

		for (t = 0; t < c->d / 32; t++)
			top = larger(magnitude(f16_f32(p[t * 16])), top);
		c->most[i] = i < c->end ? top : 0.0f;
	}
}

/* ---- integers of 32 dimensions and 16 positions */

/* Takes 8 from each byte, which has a number of q4_0; returns signed bytes. */
DEV u32
less_8(u32 x)
{
	return ((x & 0x0f0f0f0f) + 0x78787878) ^ 0x80808080;
}

/*
 * Words of both keys 2 g and 2 g + 1, pairs of dimensions c4 + 4 i, the first of
 * which is at p: of even keys to x[0], of odd ones to x[1].
 */
DEV void
key_words(const GLOBAL u8 *p, u32 (*x)[2], const int four_bits)
{
	u32 w[4], i;

	UNROLL for (i = 0; i < (four_bits ? 2 : 4); i++)
		w[i] = *(const GLOBAL u32 *)(p + i * 128);
	if (four_bits) {
		UNROLL for (i = 0; i < 2; i++) {
			w[i + 2] = less_8(w[i] >> 4);
			w[i] = less_8(w[i]);
		}
	}
	UNROLL for (i = 0; i < 2; i++) {
		x[0][i] = prmt(w[2 * i], w[2 * i + 1], 0x5410);
		x[1][i] = prmt(w[2 * i], w[2 * i + 1], 0x7632);
	}
}

/*
 * Words of dimensions 2 g and 2 g + 1 of each half, pairs of positions c4, which
 * are at v, and c4 + 4 of two blocks: of half n, even dimensions to x[n][0].
 */
DEV void
value_words(const GLOBAL u8 *const *v, u32 (*x)[2][2], const int four_bits)
{
	u32 w[2][4], i, n;

	UNROLL for (i = 0; i < 4; i++) {
		const GLOBAL u8 *p = v[i / 2] + i % 2 * (four_bits ? 128 : 256);

		w[0][i] = *(const GLOBAL u32 *)p;
		if (four_bits) {
			w[1][i] = less_8(w[0][i] >> 4);
			w[0][i] = less_8(w[0][i]);
		} else {
			w[1][i] = *(const GLOBAL u32 *)(p + 32);
		}
	}
	UNROLL for (n = 0; n < 2; n++) {
		UNROLL for (i = 0; i < 2; i++) {
			x[n][0][i] = prmt(w[n][2 * i], w[n][2 * i + 1], 0x5410);
			x[n][1][i] = prmt(w[n][2 * i], w[n][2 * i + 1], 0x7632);
		}
	}
}

/* sum += 256 high b + low b */
DEV void
multiply(s32 *sum, const u32 *high, const u32 *low, const u32 *b)
{
	s32 top[4];
	u32 i;

	mma_ss_0(top, high, b);
	UNROLL for (i = 0; i < 4; i++)
		sum[i] += top[i] * 256;
	mma_us(sum, low, b);
}

/* ---- scores */

/* Fragments of queries g and g + 8, 32 dimensions. */
DEV void
query_words(const struct part *c, const SHARED u8 *plane, u32 t, u32 *a)
{
	u32x4 x = *(const SHARED u32x4 *)(plane + tid() % 32 / 4 * c->q_step +
	    t * 64 + tid() % 4 * 16);
	u32 i;

	UNROLL for (i = 0; i < 4; i++)
		a[i] = x[i];
}

/* s[b][e][i]: block b of the warp, query g + 8 e, key 4 c4 + i */
DEV void
scores(const struct part *c, f32 (*s)[2][4], const int four_bits)
{
	const u32 warp = tid() / 32, g = tid() % 32 / 4, c4 = tid() % 4;
	const u32 tile_bytes = four_bits ? 256 : 512;
	const GLOBAL u8 *scale[4], *k[4];
	u32 t, b, n, i;

	UNROLL for (b = 0; b < 4; b++) {
		scale[b] = (const GLOBAL u8 *)(c->block[warp * 4 + b] + c->k);
		k[b] = scale[b] + c->d + c4 * 32 + g * 4;
		scale[b] += c4 * 8;
	}
	UNROLL for (b = 0; b < 4; b++)
		UNROLL for (i = 0; i < 8; i++)
			s[b][i / 4][i % 4] = 0.0f;
	UNROLL_2 for (t = 0; t < c->d / 32; t++) {
		u32 high[4], low[4];

		query_words(c, c->high, t, high);
		query_words(c, c->low, t, low);
		UNROLL for (b = 0; b < 4; b++) {
			u32x2 sc = *(const GLOBAL u32x2 *)(scale[b] + t * 32);
			u32 x[2][2];

			key_words(k[b] + t * tile_bytes, x, four_bits);
			UNROLL for (n = 0; n < 2; n++) {
				s32 sum[4] = { 0, 0, 0, 0 };

				multiply(sum, high, low, x[n]);
				UNROLL for (i = 0; i < 4; i++)
					s[b][i / 2][i % 2 * 2 + n] = rn_fma(
					    (f32)sum[i], f16_f32((u16)(sc[i %
					    2] >> 16 * n)), s[b][i / 2][i % 2 *
					    2 + n]);
			}
		}
	}
}

/* ---- weights */

/* Scores become weights in c->p; notes each query's largest score. */
DEV void
put_weights(const struct part *c, f32 (*s)[2][4], GLOBAL f32 *part, u64 step)
{
	const u32 warp = tid() / 32, g = tid() % 32 / 4, c4 = tid() % 4;
	u32 b, e, i;

	UNROLL for (e = 0; e < 2; e++) {
		const f32 scale = c->scale[g + 8 * e];
		f32 top = LEAST;

		UNROLL for (b = 0; b < 4; b++) UNROLL for (i = 0; i < 4; i++) {
			const s32 key = (s32)(warp * 64 + b * 16 + 4 * c4 + i);

			s[b][e][i] = key < c->lim[g + 8 * e] ? s[b][e][i] *
			    scale : LEAST;
			top = larger(top, s[b][e][i]);
		}
		UNROLL for (i = 1; i < 4; i *= 2)
			top = larger(top, shfl_xor_f32(top, i));
		if (c4 == 0)
			c->each[warp * M + g + 8 * e] = top;
	}
	bar();
	UNROLL for (e = 0; e < 2; e++) {
		const u32 q = g + 8 * e;
		f32 top = c->each[q];

		UNROLL for (i = 1; i < 4; i++)
			top = larger(top, c->each[i * M + q]);
		UNROLL for (b = 0; b < 4; b++) {
			const u32 key = warp * 64 + b * 16 + 4 * c4;
			f32x4 p;

			UNROLL for (i = 0; i < 4; i++)
				p[i] = (s32)(key + i) < c->lim[q] ?
				    dev_exp(s[b][e][i] - top) : 0.0f;
			*(SHARED f32x4 *)(c->p + q * P_STEP + key) = p;
		}
		if (warp == 0 && c4 == 0 && c->at[q] != ~0u)
			part[c->at[q] * step] = top;
	}
}

/*
 * Sums of weights, and weights times the factor that makes them integers with
 * their values' scales, whose inverse is put to c->each.
 */
DEV void
scale_weights(const struct part *c, GLOBAL f32 *part, u64 step)
{
	const u32 warp = tid() / 32, lane = tid() % 32;
	u32 i, q;

	for (q = tid() / 16; q < M; q += THREADS / 16) {
		f32 l = 0.0f;

		UNROLL for (i = 0; i < 16; i++)
			l = l + c->p[q * P_STEP + i * 16 + lane % 16];
		l = add_parts(l);
		if (lane % 16 == 0 && c->at[q] != ~0u)
			part[c->at[q] * step + 1] = l;
	}
	bar();
	for (q = warp; q < M; q += THREADS / 32) {
		SHARED f32 *p = c->p + q * P_STEP + lane;
		f32 top = 0.0f, k;

		UNROLL for (i = 0; i < 8; i++)
			top = larger(p[i * 32] * c->most[i * 32 + lane], top);
		top = warp_max(top);
		k = top >= 0x1p-100f ? 32767.0f / top : 0.0f;
		UNROLL for (i = 0; i < 8; i++)
			p[i * 32] = p[i * 32] * k;
		if (lane == 0)
			c->each[q] = top >= 0x1p-100f ? top / 32767.0f : 0.0f;
	}
}

/* ---- values */

/*
 * Weights of two blocks' pairs of positions c4 and c4 + 4, queries g and g + 8,
 * as planes.  Added to 1.5 * 2^23 a weight is rounded as rint does, and its 16 bits
 * are the lowest; it is at most 32767 (1 + 2^-22).
 */
DEV void
weight_words(const struct part *c, u32 b, const u32 *sc, u32 *high, u32 *low)
{
	const u32 g = tid() % 32 / 4, c4 = tid() % 4;
	u32 i, e, y[2][2], first, second;

	UNROLL for (e = 0; e < 2; e++) {
		UNROLL for (i = 0; i < 4; i++) {
			f32x2 p = *(const SHARED f32x2 *)(c->p + (g + 8 * e) *
			    P_STEP + (b + i / 2) * 16 + 2 * (c4 + 4 * (i % 2)));

			y[i % 2][0] = f32_bits(p[0] * f16_f32((u16)sc[i]) +
			    12582912.0f);
			y[i % 2][1] = f32_bits(p[1] * f16_f32((u16)(sc[i] >>
			    16)) + 12582912.0f);
			if (i % 2 == 0)
				continue;
			first = prmt(y[0][0], y[0][1], 0x5140);
			second = prmt(y[1][0], y[1][1], 0x5140);
			low[e + i / 2 * 2] = prmt(first, second, 0x5410);
			high[e + i / 2 * 2] = prmt(first, second, 0x7632);
		}
	}
}

/* Zeroes the scales of the two positions if no query attends to them. */
DEV u32
in_use(u32 sc, u32 at, u32 end)
{
	return at + 1 < end ? sc : at < end ? sc & 0xffff : 0;
}

DEV void
values(const struct part *c, GLOBAL f32 *part, u64 step, const int four_bits)
{
	const u32 warp = tid() / 32, g = tid() % 32 / 4, c4 = tid() % 4;
	const u32 tile_bytes = four_bits ? 256 : 512;
	u32 t, b, i, n;

	for (t = warp; t < c->d / 32; t += THREADS / 32) {
		const u64 scale = c->v + t * 32 + c4 * 4;
		const u64 at = c->v + c->d + t * tile_bytes + g * 4 + c4 *
		    (four_bits ? 32 : 64);
		s32 o[2][2][4] = { 0 };		/* half, even or odd */

		UNROLL_2 for (b = 0; b < (c->end + 31) / 32 * 2; b += 2) {
			const GLOBAL u8 *v[2];
			u32 sc[4], high[4], low[4], x[2][2][2];

			UNROLL for (i = 0; i < 4; i++) {
				const u64 block = c->block[b + i / 2];

				sc[i] = *(const GLOBAL u32 *)(block + scale +
				    i % 2 * 16);
				v[i / 2] = (const GLOBAL u8 *)(block + at);
			}
			UNROLL for (i = 0; i < 4 && b * 16 + 32 > c->end; i++)
				sc[i] = in_use(sc[i], b * 16 + i / 2 * 16 +
				    2 * c4 + i % 2 * 8, c->end);
			value_words(v, x, four_bits);
			weight_words(c, b, sc, high, low);
			UNROLL for (n = 0; n < 4; n++)
				multiply(o[n / 2][n % 2], high, low,
				    x[n / 2][n % 2]);
		}
		UNROLL for (n = 0; n < 4; n++) UNROLL for (i = 0; i < 4; i++) {
			const u32 q = g + i / 2 * 8;

			if (c->at[q] != ~0u)
				part[c->at[q] * step + t * 32 + n / 2 * 16 +
				    2 * (2 * c4 + i % 2) + n % 2] =
				    (f32)o[n / 2][n % 2][i] * c->each[q];
		}
	}
}

/*
 * Blocks: rows by a->rows, key heads, their queries by 16; chunks.  The rows of
 * a block are of one session.
 */
DEV void
attend_integers(const struct dev_attend *a, const enum qwen_kv kt,
    const enum qwen_kv vt)
{
	const u32 each = a->n_head / a->n_head_kv;
	const u32 tiles = (a->rows * each + M - 1) / M;
	const u32 head = bid() / tiles % a->n_head_kv;
	const u32 row = bid() / tiles / a->n_head_kv * a->rows;
	const struct qwen_kv_shape shape = { .n_head = a->n_head_kv,
	    .d = a->d, .k = kt, .v = vt };
	const u64 step = (u64)a->n_chunk * DEV_PART(a->d);
	GLOBAL f32 *part = a->part + bid_y() * DEV_PART(a->d);
	const GLOBAL u64 *table;
	struct part c = { .d = a->d, .q_step = 2 * a->d + 64 };
	f32 s[4][2][4];

	c.block = (SHARED u64 *)SMEM;
	c.p = (SHARED f32 *)(c.block + BLOCKS);
	c.most = c.p + M * P_STEP;
	c.each = c.most + DEV_CHUNK;
	c.scale = c.each + 4 * M;
	c.lim = (SHARED s32 *)(c.scale + M);
	c.at = (SHARED u32 *)(c.lim + M);
	c.high = (SHARED u8 *)(c.at + M);
	c.low = c.high + M / 2 * c.q_step;
	c.k = a->block + qwen_kv_k_at(&shape, head);
	c.v = a->block + qwen_kv_v_at(&shape, head);
	take_queries(a, &c, head, row, bid() % tiles * M, a->rows * each);
	if (c.end == 0)
		return;
	table = (const GLOBAL u64 *)a->pass.share[a->pass.row[a->first + row].
	    share].table + bid_y() * BLOCKS;
	if (tid() < BLOCKS)
		c.block[tid()] = table[tid() * 16 < c.end ? tid() : 0];
	copy_queries(a, &c);
	bar();
	largest_scales(&c);
	scores(&c, s, kt == QWEN_KV_Q4_0);
	put_weights(&c, s, part + a->d, step);
	bar();
	scale_weights(&c, part + a->d, step);
	bar();
	values(&c, part, step, vt == QWEN_KV_Q4_0);
}

#define INTEGERS(k, v, kt, vt)						\
KERNEL(attend_##k##_##v, struct dev_attend)				\
{									\
	attend_integers(&a, kt, vt);					\
}
INTEGERS(q8_0, q8_0, QWEN_KV_Q8_0, QWEN_KV_Q8_0)
INTEGERS(q8_0, q4_0, QWEN_KV_Q8_0, QWEN_KV_Q4_0)
INTEGERS(q4_0, q8_0, QWEN_KV_Q4_0, QWEN_KV_Q8_0)
INTEGERS(q4_0, q4_0, QWEN_KV_Q4_0, QWEN_KV_Q4_0)
