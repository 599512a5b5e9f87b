/* SPDX-License-Identifier: ISC */
/*
 * attend_tile.c - rows of a session attend to f16 keys and values: 64 queries of
 * a key head and a chunk of keys.
 *
 * Both products are limited by the multiply-adds of f32.  A thread has 8 queries
 * by 8 keys, then 8 queries by up to 8 dimensions, in registers.  Keys and values
 * come to the block's memory as f32, a piece while that before it is worked on.
 */
#include "engine/cuda/kernel/attend.h"
#include "engine/cuda/kernel/softmax.h"

enum {
	THREADS = DEV_TILE_THREADS,
	M = DEV_TILE,
	P_STEP = M + 4,		/* from a key, or dimension, to the next one of
				   weights, or queries, in other banks */
	K_STEP = DEV_CHUNK + 4,	/* from a dimension to the next one of keys */
	PIECE = 16,		/* dimensions of keys, or keys of values */
	STAGE = PIECE * K_STEP	/* numbers of a piece */
};

struct tile {
	const GLOBAL u64 *table;	/* of the chunk's blocks */
	u64		 k, v;		/* where a head's are in a block */
	SHARED f32	*p;		/* queries [d][P_STEP], then weights
					   [DEV_CHUNK][P_STEP] */
	SHARED f32	*stage;		/* two pieces */
	SHARED f32	*each;		/* [4][M] largest scores */
	SHARED s32	*lim;		/* [M] keys that a query attends to */
	SHARED u32	*at;		/* [M] its number among all; ~0: none */
	s32		 low, high;	/* of lim */
	u32		 q, k0, d0;	/* this thread's first query, key, dimension;
					   four more queries are 32 further */
};

/* What a thread has of the next piece. */
struct next {
	u32x4	x[2];
};

/* ---- queries */

/* Says which queries the block has; rows r .. r + n - 1 after the first. */
DEV void
take_queries(const struct dev_attend *a, struct tile *t, u32 head, u32 r, u32 n)
{
	const u32 each = a->n_head / a->n_head_kv, lane = tid() % 32;
	s32 x, i;

	if (tid() < M) {
		const u32 m = tid(), row = r + m / each;
		const GLOBAL struct dev_row *in = a->pass.row + a->first + row;
		const int used = m / each < n && in->wanted;

		t->lim[m] = used ? (s32)(in->slot + 1) -
		    (s32)(bid_y() * DEV_CHUNK) : 0;
		t->at[m] = used && t->lim[m] > 0 ? row * a->n_head +
		    head * each + m % each : ~0u;
	}
	bar();
	t->high = 0;
	t->low = DEV_CHUNK;
	UNROLL for (i = 0; i < M; i += 32) {
		x = t->lim[lane + (u32)i];
		t->high = x > t->high ? x : t->high;
		t->low = x < t->low && t->at[lane + (u32)i] != ~0u ? x : t->low;
	}
	UNROLL for (i = 1; i < 32; i *= 2) {
		x = shfl_xor(t->high, (u32)i);
		t->high = x > t->high ? x : t->high;
		x = shfl_xor(t->low, (u32)i);
		t->low = x < t->low ? x : t->low;
	}
	t->high = t->high < DEV_CHUNK ? t->high : DEV_CHUNK;
}

/* Copies the queries, turned: [d][M]. */
DEV void
copy_queries(const struct dev_attend *a, const struct tile *t, const u32 D)
{
	const u32 m = tid() / 32 * 8 + tid() % 8, at = t->at[m];
	const GLOBAL f32 *q = a->in + (u64)(a->first + at / a->n_head) *
	    a->in_width + at % a->n_head * a->step;
	f32x4 x = { 0.0f, 0.0f, 0.0f, 0.0f };
	u32 i, e, j;

	UNROLL_8 for (i = 0; i < D / 16; i++) {
		e = i * 16 + tid() % 32 / 8 * 4;
		if (at != ~0u)
			x = *(const GLOBAL f32x4 *)(q + e);
		UNROLL for (j = 0; j < 4; j++)
			t->p[(e + j) * P_STEP + m] = x[j];
	}
}

/* ---- pieces */

/* A thread fetches 16 keys of a dimension. */
DEV void
fetch_keys(const struct tile *t, u32 s, struct next *x)
{
	const u32 b = tid() / 16;
	const GLOBAL u32x4 *from;

	x->x[0] = x->x[1] = (u32x4){ 0, 0, 0, 0 };
	if ((s32)(b * QWEN_KV_BLOCK) >= t->high)
		return;
	from = (const GLOBAL u32x4 *)(t->table[b] + t->k) +
	    (s * PIECE + tid() % 16) * 2;
	x->x[0] = from[0];
	x->x[1] = from[1];
}

DEV f32x4
four(u32 a, u32 b)
{
	return (f32x4){ f16_f32((u16)a), f16_f32((u16)(a >> 16)),
	    f16_f32((u16)b), f16_f32((u16)(b >> 16)) };
}

DEV void
put_keys(const struct tile *t, u32 s, const struct next *x)
{
	SHARED f32x4 *to = (SHARED f32x4 *)(t->stage + s % 2 * STAGE +
	    tid() % 16 * K_STEP + tid() / 16 * 16);
	u32 i;

	UNROLL for (i = 0; i < 4; i++)
		to[i] = four(x->x[i / 2][i % 2 * 2], x->x[i / 2][i % 2 * 2 + 1]);
}

/* A thread fetches D / 16 numbers of a piece's values, 8 at a time. */
DEV void
fetch_values(const struct tile *t, u32 s, struct next *x, const u32 D)
{
	const GLOBAL u32x4 *from = (const GLOBAL u32x4 *)(t->table[s] + t->v);
	u32 i;

	UNROLL for (i = 0; i < 2; i++)
		if (tid() + i * THREADS < 2 * D)
			x->x[i] = from[tid() + i * THREADS];
}

DEV void
put_values(const struct tile *t, u32 s, const struct next *x, const u32 D)
{
	SHARED f32x4 *to = (SHARED f32x4 *)(t->stage + s % 2 * STAGE);
	u32 i;

	UNROLL for (i = 0; i < 2; i++) {
		if (tid() + i * THREADS >= 2 * D)
			continue;
		to[2 * (tid() + i * THREADS)] = four(x->x[i][0], x->x[i][1]);
		to[2 * (tid() + i * THREADS) + 1] = four(x->x[i][2],
		    x->x[i][3]);
	}
}

/* ---- products */

/* c[i][j] += a[i] b[j] */
DEV void
outer(f32 (*c)[8], const SHARED f32 *p, const f32 *b, const u32 n)
{
	f32x4 a[2] = { *(const SHARED f32x4 *)p,
	    *(const SHARED f32x4 *)(p + 32) };
	u32 i, j;

	UNROLL for (i = 0; i < 8; i++)
		UNROLL for (j = 0; j < n; j++)
			c[i][j] = rn_fma(a[i / 4][i % 4], b[j], c[i][j]);
}

DEV void
load(f32 *b, const SHARED f32 *p, const u32 n)
{
	u32 i;

	UNROLL for (i = 0; i < n; i++)
		b[i] = p[i / 4 * 32 + i % 4];
}

DEV void
scores(const struct tile *t, f32 (*s)[8], const u32 D)
{
	const u32 n = D / PIECE;
	struct next x;
	u32 i, j, e;

	UNROLL for (i = 0; i < 8; i++)
		UNROLL for (j = 0; j < 8; j++)
			s[i][j] = 0.0f;
	fetch_keys(t, 0, &x);
	put_keys(t, 0, &x);
	bar();
	for (i = 0; i < n; i++) {
		const SHARED f32 *q = t->p + i * PIECE * P_STEP + t->q;
		const SHARED f32 *k = t->stage + i % 2 * STAGE + t->k0;

		if (i + 1 < n)
			fetch_keys(t, i + 1, &x);
		if ((s32)(t->k0 & ~63u) < t->high) {
			UNROLL_8 for (e = 0; e < PIECE; e++) {
				f32 b[8];

				load(b, k + e * K_STEP, 8);
				outer(s, q + e * P_STEP, b, 8);
			}
		}
		if (i + 1 < n)
			put_keys(t, i + 1, &x);
		bar();
	}
}

/* Makes weights of scores; notes each query's largest score and sum. */
DEV void
weights(const struct tile *t, f32 (*s)[8], GLOBAL f32 *part, u64 step)
{
	const u32 quarter = t->k0 / 64;
	u32 i, j, q;

	UNROLL for (i = 0; i < 8; i++) {
		const u32 m = t->q + i / 4 * 32 + i % 4;
		const s32 lim = t->lim[m];
		f32 top = LEAST;

		UNROLL for (j = 0; j < 8; j++) {
			s[i][j] = (s32)(t->k0 + j / 4 * 32 + j % 4) < lim ?
			    s[i][j] : LEAST;
			top = larger(top, s[i][j]);
		}
		UNROLL for (j = 4; j < 32; j *= 2)
			top = larger(top, shfl_xor_f32(top, j));
		if (tid() % 32 < 4)
			t->each[quarter * M + m] = top;
	}
	bar();
	UNROLL for (i = 0; i < 8; i++) {
		const u32 m = t->q + i / 4 * 32 + i % 4;
		f32 top = t->each[m];

		UNROLL for (j = 1; j < 4; j++)
			top = larger(top, t->each[j * M + m]);
		UNROLL for (j = 0; j < 8; j++)
			s[i][j] = (s32)(t->k0 + j / 4 * 32 + j % 4) <
			    t->lim[m] ? dev_exp(s[i][j] - top) : 0.0f;
		if (t->k0 == 0 && t->at[m] != ~0u)
			part[t->at[m] * step] = top;
	}
	UNROLL for (j = 0; j < 8; j++)
		UNROLL for (i = 0; i < 8; i += 4)
			*(SHARED f32x4 *)(t->p + (t->k0 + j / 4 * 32 + j % 4) *
			    P_STEP + t->q + i * 8) = (f32x4){ s[i][j],
			    s[i + 1][j], s[i + 2][j], s[i + 3][j] };
	bar();
	for (q = tid() / 16; q < M; q += THREADS / 16) {
		f32 l = 0.0f;

		UNROLL for (i = 0; i < 16; i++)
			l = l + t->p[(i * 16 + tid() % 16) * P_STEP + q];
		l = add_parts(l);
		if (tid() % 16 == 0 && t->at[q] != ~0u)
			part[t->at[q] * step + 1] = l;
	}
}

/* A piece some of whose keys are not those of some queries. */
DEV void
some_values(const struct tile *t, f32 (*o)[8], u32 first, const SHARED f32 *v,
    const u32 D)
{
	const u32 nd = D / 32;
	u32 i, j, e;

	for (e = 0; e < PIECE && (s32)(first + e) < t->high; e++) {
		f32 b[8];

		load(b, v + e * D, nd);
		UNROLL for (i = 0; i < 8; i++) {
			const u32 m = t->q + i / 4 * 32 + i % 4;
			const f32 w = t->p[(first + e) * P_STEP + m];
			const int has = (s32)(first + e) < t->lim[m];

			UNROLL for (j = 0; j < nd; j++)
				o[i][j] = has ? rn_fma(w, b[j], o[i][j]) :
				    o[i][j];
		}
	}
}

DEV void
values(const struct tile *t, f32 (*o)[8], const u32 D)
{
	const u32 n = ((u32)t->high + PIECE - 1) / PIECE;
	struct next x;
	u32 i, j, e;

	UNROLL for (i = 0; i < 8; i++)
		UNROLL for (j = 0; j < D / 32; j++)
			o[i][j] = 0.0f;
	fetch_values(t, 0, &x, D);
	put_values(t, 0, &x, D);
	bar();
	for (i = 0; i < n; i++) {
		const SHARED f32 *p = t->p + i * PIECE * P_STEP + t->q;
		const SHARED f32 *v = t->stage + i % 2 * STAGE + t->d0;

		if (i + 1 < n)
			fetch_values(t, i + 1, &x, D);
		if ((s32)((i + 1) * PIECE) <= t->low) {
			UNROLL_8 for (e = 0; e < PIECE; e++) {
				f32 b[8];

				load(b, v + e * D, D / 32);
				outer(o, p + e * P_STEP, b, D / 32);
			}
		} else {
			some_values(t, o, i * PIECE, v, D);
		}
		if (i + 1 < n)
			put_values(t, i + 1, &x, D);
		bar();
	}
}

/* Blocks: key heads of as many rows as 64 queries need; chunks. */
DEV void
attend_tile(const struct dev_attend *a, const u32 D)
{
	const u32 rows = M / (a->n_head / a->n_head_kv);
	const u32 head = bid() % a->n_head_kv, r = bid() / a->n_head_kv * rows;
	const u32 n = a->n - r < rows ? a->n - r : rows, lane = tid() % 32;
	const struct qwen_kv_shape shape = { .n_head = a->n_head_kv, .d = D };
	const u64 step = (u64)a->n_chunk * DEV_PART(D);
	GLOBAL f32 *part = a->part + bid_y() * DEV_PART(D);
	struct tile t = { .p = (SHARED f32 *)SMEM };
	f32 c[8][8];
	u32 i, j;

	t.stage = t.p + DEV_CHUNK * P_STEP;
	t.each = t.stage + 2 * STAGE;
	t.lim = (SHARED s32 *)(t.each + 4 * M);
	t.at = (SHARED u32 *)(t.lim + M);
	t.table = (const GLOBAL u64 *)a->pass.share[a->pass.row[a->first].share].
	    table + bid_y() * (DEV_CHUNK / QWEN_KV_BLOCK);
	t.k = a->block + qwen_kv_k_at(&shape, head);
	t.v = a->block + qwen_kv_v_at(&shape, head);
	t.q = tid() / 32 % 2 * 16 + lane % 4 * 4;
	t.k0 = tid() / 64 * 64 + lane / 4 * 4;
	t.d0 = tid() / 64 * (D / 4) + lane / 4 * (D < 128 ? D / 32 : 4);
	take_queries(a, &t, head, r, n);
	if (t.high == 0)
		return;
	copy_queries(a, &t, D);
	scores(&t, c, D);
	weights(&t, c, part + D, step);
	values(&t, c, D);
	UNROLL for (i = 0; i < 8; i++) {
		const u32 at = t.at[t.q + i / 4 * 32 + i % 4];

		UNROLL for (j = 0; at != ~0u && j < D / 32; j++)
			part[at * step + t.d0 + j / 4 * 32 + j % 4] = c[i][j];
	}
}

KERNEL(attend_tile_64, struct dev_attend) { attend_tile(&a, 64); }
KERNEL(attend_tile_128, struct dev_attend) { attend_tile(&a, 128); }
KERNEL(attend_tile_256, struct dev_attend) { attend_tile(&a, 256); }
