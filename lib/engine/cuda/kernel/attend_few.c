/* SPDX-License-Identifier: ISC */
/*
 * attend_few.c - a row attends to f16 keys and values: queries of a key head and
 * a chunk of keys.  The only row of a session does all of attention here: the last
 * block of its queries joins the chunks.
 *
 * Keys come to shared memory in pieces of 32 dimensions, then values in pieces
 * of as many numbers.  The next piece is under way while threads use this one.  A
 * thread has two keys, then one or two dimensions of values, for all queries.
 */
#include "engine/cuda/kernel/attend_head.h"
#include "engine/cuda/kernel/attend_join.h"

enum {
	SLOTS = DEV_FEW_SLOTS,
	SLOT = DEV_FEW_SLOT,
	THREADS = DEV_FEW_THREADS,
	WARPS = THREADS / 32,
	DIMS = 32,			/* of keys in a slot */
	KEYS_16 = DIMS * 32 + 32,	/* bytes of 16 keys in a slot, so that
					   those of a warp are in all banks */
};

/* What a block works on. */
struct few {
	SHARED u64		*block;	/* addresses of the chunk's blocks */
	u64			 k, v;	/* where a head's are in a block */
	u32			 n, n_q;	/* keys, queries */
	SHARED u8		*slot;
	SHARED f32		*q;	/* [d][NQ] */
	SHARED f32		*p;	/* [DEV_CHUNK][NQ] */
	SHARED f32		*each;	/* [NQ][warps] */
};

/* Begins to fetch piece s: of keys, then of values. */
DEV void
fetch(const struct few *f, u32 s, const u32 D)
{
	SHARED u8 *to = f->slot + s % SLOTS * SLOT;
	u32 i, j, b, at;

	UNROLL for (j = 0; s < 2 * D / DIMS && j < 1024 / THREADS; j++) {
		i = tid() + j * THREADS;
		if (s < D / DIMS) {
			b = i / 64;
			at = i % 64 * 16;
			if (b * QWEN_KV_BLOCK < f->n)
				copy16(to + b * KEYS_16 + at, (const GLOBAL u8 *)
				    (f->block[b] + f->k) + s * DIMS * 32 + at);
		} else {
			b = (s - D / DIMS) * (512 / D) + i / (2 * D);
			if (b * QWEN_KV_BLOCK < f->n)
				copy16(to + i * 16, (const GLOBAL u8 *)
				    (f->block[b] + f->v) + i % (2 * D) * 16);
		}
	}
	copy_commit();
}

DEV void
begin(const struct few *f, const u32 D)
{
	u32 s;

	for (s = 0; s < SLOTS - 1; s++)
		fetch(f, s, D);
}

/* Waits for piece s, and begins to fetch one more. */
DEV const SHARED u8 *
take(const struct few *f, u32 s, const u32 D)
{
	copy_wait(SLOTS - 2);
	bar();
	fetch(f, s + SLOTS - 1, D);
	return f->slot + s % SLOTS * SLOT;
}

/* A thread's keys are 2 tid and one more. */
DEV void
scores(const struct few *f, f32 (*s)[2], const u32 D, const u32 NQ)
{
	u32 i, e, r;

	UNROLL for (r = 0; r < NQ; r++)
		s[r][0] = s[r][1] = 0.0f;
	for (i = 0; i < D / DIMS; i++) {
		const SHARED u8 *k = take(f, i, D) + tid() / 8 * KEYS_16 +
		    tid() % 8 * 4;
		const SHARED f32 *q = f->q + i * DIMS * NQ;

		UNROLL for (e = 0; e < DIMS; e++) {
			u32 two = *(const SHARED u32 *)(k + e * 32);
			f32 k0 = f16_f32((u16)two), k1 = f16_f32((u16)(two >>
			    16));

			UNROLL for (r = 0; r < NQ; r++) {
				s[r][0] = rn_fma(q[e * NQ + r], k0, s[r][0]);
				s[r][1] = rn_fma(q[e * NQ + r], k1, s[r][1]);
			}
		}
	}
}

/* Makes weights of scores; notes each query's largest score and sum. */
DEV void
weights(const struct few *f, f32 (*s)[2], const u32 NQ, GLOBAL f32 *part,
    u64 step)
{
	u32 i, j, r = tid() / 16;
	f32 l = 0.0f, m;

	UNROLL for (r = 0; r < NQ; r++) {
		UNROLL for (j = 0; j < 2; j++)
			s[r][j] = 2 * tid() + j < f->n ? s[r][j] : LEAST;
		m = warp_max(larger(s[r][0], s[r][1]));
		if (tid() % 32 == 0)
			f->each[r * WARPS + tid() / 32] = m;
	}
	bar();
	UNROLL for (r = 0; r < NQ; r++) {
		m = f->each[r * WARPS];
		UNROLL for (i = 1; i < WARPS; i++)
			m = larger(m, f->each[r * WARPS + i]);
		UNROLL for (j = 0; j < 2; j++)
			f->p[(2 * tid() + j) * NQ + r] = 2 * tid() + j < f->n ?
			    dev_exp(s[r][j] - m) : 0.0f;
		if (tid() == 0 && r < f->n_q)
			part[r * step] = m;
	}
	bar();
	if (tid() < 16 * NQ) {
		r = tid() / 16;
		UNROLL for (i = 0; i < 16; i++)
			l = l + f->p[(i * 16 + tid() % 16) * NQ + r];
		l = add_parts(l);
		if (tid() % 16 == 0 && r < f->n_q)
			part[r * step + 1] = l;
	}
}

/*
 * Sums of weighted values: thread i has ND dimensions, of NQ / (threads of a
 * key) queries.
 */
DEV void
values(const struct few *f, const u32 D, const u32 NQ, GLOBAL f32 *part,
    u64 step)
{
	const u32 ND = D > THREADS ? D / THREADS : 1, KEYS = 8192 / D;
	const u32 NR = D < THREADS ? NQ * D / THREADS : NQ;
	const u32 d = tid() % (D / ND) * ND, r0 = tid() / (D / ND) * NR;
	f32 o[8][2];
	u32 i, r, key, n;

	UNROLL for (r = 0; r < NR; r++)
		o[r][0] = o[r][1] = 0.0f;
	for (i = 0; i < D / DIMS; i++) {
		const SHARED u8 *v = take(f, D / DIMS + i, D) + d * 2;
		const SHARED f32 *p = f->p + i * KEYS * NQ + r0;

		n = f->n > i * KEYS ? f->n - i * KEYS : 0;
		n = n < KEYS ? n : KEYS;
		UNROLL_8 for (key = 0; key < n; key++) {
			u32 two = ND > 1 ? *(const SHARED u32 *)(v + key * D * 2) :
			    *(const SHARED u16 *)(v + key * D * 2);
			f32 v0 = f16_f32((u16)two), v1 = f16_f32((u16)(two >>
			    16));

			UNROLL for (r = 0; r < NR; r++) {
				o[r][0] = rn_fma(p[key * NQ + r], v0, o[r][0]);
				if (ND > 1)
					o[r][1] = rn_fma(p[key * NQ + r], v1,
					    o[r][1]);
			}
		}
	}
	UNROLL for (r = 0; r < NR; r++) {
		if (r0 + r < f->n_q) {
			part[(r0 + r) * step + d] = o[r][0];
			if (ND > 1)
				part[(r0 + r) * step + d + 1] = o[r][1];
		}
	}
}

/* ---- the only row of a session */

/*
 * Makes the queries of row t, by a warp each, and appends the key and value if
 * they are of this chunk.  Blocks with other queries append the same.
 */
DEV void
prepare(const struct dev_attend *a, const struct few *f, u32 t, u32 head,
    u32 q0, int append, const u32 D, const u32 NQ)
{
	SHARED f32 *x = (SHARED f32 *)(f->slot + (SLOTS - 1) * SLOT) +
	    tid() / 32 * D;
	const u32 slot = a->pass.row[t].slot, lane = tid() & 31;
	const u32 end = append ? NQ + 2 : NQ;
	u32 i, e;

	for (i = tid() / 32; i < end; i += WARPS) {
		const GLOBAL f32 *p = a->in + (u64)t * a->in_width + (i < NQ ?
		    (q0 + i) * a->step : a->n_head * a->step + (head +
		    (i - NQ) * a->n_head_kv) * D);
		const GLOBAL f32 *w = i < NQ ? a->q_norm : a->k_norm;
		struct dev_kv kv;

		for (e = lane; e < D; e += 32)
			x[e] = i >= NQ || i < f->n_q ? p[e] : 0.0f;
		warp_bar();
		if (i <= NQ && w)
			norm_head(x, w, D, a->eps);
		if (i <= NQ)
			turn_head(x, a->turn + (u64)t * a->turn_width,
			    a->n_rot / 2);
		if (i >= NQ)
			kv = cache_at(a, t, slot, head, i > NQ);
		for (e = lane; e < D; e += 32) {
			if (i < NQ)
				f->q[e * NQ + i] = x[e] * a->scale;
			else
				kv_put_float(&kv, slot % QWEN_KV_BLOCK, e,
				    x[e]);
		}
		warp_bar();
	}
}

/* Joins the n chunks of queries from q0 on, at part, and makes their groups. */
DEV void
join(const struct dev_attend *a, const struct few *f, u32 t, u32 q0,
    const GLOBAL f32 *part, u32 n, const u32 D, const u32 NQ)
{
	const u64 step = (u64)a->n_chunk * DEV_PART(D);
	const GLOBAL f32 *gate = a->in + (u64)t * a->in_width + q0 * a->step + D;
	GLOBAL f32 *out = a->out + (u64)t * a->out_width + q0 * D;
	struct join j = { .e = (SHARED f32x2 *)f->slot };
	u32 i, g, c, h;
	f32 v[8];

	j.l = (SHARED f32 *)(j.e + NQ * DEV_JOIN_SPAN);
	j.top = j.l + NQ * DEV_JOIN_SPAN;
	j.x = j.top + NQ;
	if (tid() < NQ)
		j.top[tid()] = LEAST;
	bar();
	for (i = tid() / 32; i < f->n_q; i += WARPS)
		join_factors(&j, part + i * step, i, D, n);
	bar();
	for (i = tid(); i < f->n_q * D; i += THREADS) {
		f32 o = 0.0f, l = 0.0f;

		h = i / D;
		UNROLL_8 for (c = 0; c < n; c++)
			add_chunk(&o, &l, part[h * step + c * DEV_PART(D) +
			    i % D], &j, h * DEV_JOIN_SPAN + c);
		o = rn_fma(o, 1.0f / l, 0.0f);
		if (a->step > D)
			o = gated(o, gate[h * a->step + i % D]);
		j.x[i] = out[i] = o;
	}
	bar();
	for (g = tid() / 32; a->groups && g < f->n_q * D / 256; g += WARPS) {
		UNROLL for (i = 0; i < 8; i++)
			v[i] = j.x[256 * g + 8 * (tid() & 31) + i];
		make_groups((GLOBAL struct dev_group *)(a->groups + t *
		    a->group_bytes), q0 * D / 256 + g, (a->n_head * D + 255) /
		    256, v, a->two);
	}
}

/* Is this block the last of n to come?  Then it sees what the others wrote. */
DEV int
is_last(const struct few *f, GLOBAL u32 *counter, u32 n)
{
	SHARED u32 *last = (SHARED u32 *)f->slot;

	fence();
	bar();
	if (tid() == 0) {
		*last = atomic_add(counter, 1) + 1 == n;
		if (*last)
			*counter = 0;
	}
	bar();
	if (*last == 0)
		return 0;
	fence();
	bar();		/* all have read it */
	return 1;
}

/* Blocks: rows, key heads and their queries by NQ; chunks. */
DEV void
attend_few(const struct dev_attend *a, const u32 D, const u32 NQ)
{
	const u32 each = a->n_head / a->n_head_kv, parts = (each + NQ - 1) / NQ;
	const u32 i = bid() / parts / a->n_head_kv, t = a->first + i;
	const u32 head = bid() / parts % a->n_head_kv;
	const u32 left = each - bid() % parts * NQ, q0 = head * each + each -
	    left;
	const u32 end = a->pass.row[t].slot + 1, from = bid_y() * DEV_CHUNK;
	const u64 step = (u64)a->n_chunk * DEV_PART(D);
	GLOBAL f32 *all = a->part + ((u64)i * a->n_head + q0) * step;
	GLOBAL f32 *part = all + bid_y() * DEV_PART(D);
	const GLOBAL f32 *q = a->in + (u64)t * a->in_width + q0 * a->step;
	const struct qwen_kv_shape shape = { .n_head = a->n_head_kv, .d = D };
	struct few f = { .n_q = left < NQ ? left : NQ,
	    .slot = SMEM, .q = (SHARED f32 *)(SMEM + SLOTS * SLOT) };
	const int alone = a->counter != (void *)0;
	const int appends = alone && end - from <= DEV_CHUNK;
	const GLOBAL u64 *table;
	f32 s[8][2];
	u32 e;

	if (from >= end || (!alone && !a->pass.row[t].wanted))
		return;
	f.n = end - from < DEV_CHUNK ? end - from : DEV_CHUNK;
	f.p = f.q + D * NQ;
	f.each = f.p + DEV_CHUNK * NQ;
	f.block = (SHARED u64 *)(f.each + NQ * WARPS);
	table = (const GLOBAL u64 *)a->pass.share[a->pass.row[t].share].table +
	    from / QWEN_KV_BLOCK;
	if (tid() * QWEN_KV_BLOCK < f.n)
		f.block[tid()] = table[tid()];
	f.k = a->block + qwen_kv_k_at(&shape, head);
	f.v = a->block + qwen_kv_v_at(&shape, head);
	bar();
	if (!appends)
		begin(&f, D);
	if (alone)
		prepare(a, &f, t, head, q0, appends, D, NQ);
	if (!a->pass.row[t].wanted)
		return;
	if (appends) {
		bar();
		begin(&f, D);
	}
	for (e = tid(); e < D * NQ && !alone; e += THREADS)
		f.q[e] = e % NQ < f.n_q ? q[e % NQ * a->step + e / NQ] : 0.0f;
	scores(&f, s, D, NQ);
	weights(&f, s, NQ, part + D, step);
	values(&f, D, NQ, part, step);
	e = (end + DEV_CHUNK - 1) / DEV_CHUNK;
	if (alone && is_last(&f, a->counter + bid(), e))
		join(a, &f, t, q0, all, e, D, NQ);
}

#define FEW(d, nq)							\
KERNEL(attend_few_##d##_##nq, struct dev_attend) { attend_few(&a, d, nq); }
FEW(64, 2)
FEW(64, 4)
FEW(64, 8)
FEW(128, 2)
FEW(128, 4)
FEW(128, 8)
FEW(256, 2)
FEW(256, 4)
FEW(256, 8)
