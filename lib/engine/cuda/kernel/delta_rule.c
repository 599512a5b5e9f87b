/* SPDX-License-Identifier: ISC */
/*
 * delta_rule.c - the delta rule for heads of 128 numbers: a thread has a column of
 * the state in registers.
 *
 * The chains of fma over a column are what takes time: each token has one for its
 * key and one for its output.  Only the first decides what the next token gets, so
 * delta_rule has a warp for each chain, each with the state, and one that fetches
 * tokens.
 */
#include "engine/cuda/kernel/delta_end.h"

enum { K = DELTA_K, GROUP = 4 };

/* Where things of a token are in the block's memory, in f32. */
enum { AT_K = 0, AT_Q = K, AT_V = 2 * K, AT_GATES = AT_V + DELTA_COLUMNS };

/* The part of a head that a block computes. */
struct part {
	const struct dev_delta	*a;
	struct dev_share	 s;
	u32			 head, key;	/* its heads of values, keys */
	u32			 column;	/* the first one */
	u32			 n, n_sure;	/* tokens, with those owed */
};

DEV struct part
part_of(const struct dev_delta *a)
{
	struct part p;

	p.a = a;
	p.s = share_at(a, bid_z());
	p.head = bid();
	p.key = key_head(a, p.head);
	p.column = bid_y() * DELTA_COLUMNS;
	p.n = p.s.owed + p.s.n;
	p.n_sure = p.s.owed + p.s.n_sure;
	return p;
}

/* ---- tokens to the block's memory */

/* Takes a token from the journal; there is no q. */
DEV void
take_owed(const struct part *p, u32 i, SHARED f32 *to)
{
	const struct dev_delta *a = p->a;
	const GLOBAL f32 *x = journal_at(a, &p->s, (s32)i - (s32)p->s.owed) +
	    n_channel(a);
	u32 rest = n_channel(a) - a->n_head_k * K, lane = tid() & 31, j;
	struct gates at = find_gates(a, p->head);

	for (j = lane; j < K; j += DELTA_COLUMNS) {
		to[AT_K + j] = x[p->key * K + j];
		to[AT_Q + j] = 0.0f;
	}
	to[AT_V + lane] = x[a->n_head_k * K + p->head * K + p->column +
	    lane];
	to[AT_GATES] = x[rest + at.alpha];
	to[AT_GATES + 1] = x[rest + at.beta];
}

/* Copies a row that delta_prepare has made; it arrives later. */
DEV void
copy_made(const struct part *p, u32 i, SHARED f32 *to)
{
	const struct dev_delta *a = p->a;
	const GLOBAL f32 *x = a->made + (u64)(p->s.first + i - p->s.owed) *
	    a->made_stride;
	u32 t = tid() & 31, hk = a->n_head_k * K;

	copy16(to + AT_K + t * 4, x + hk + p->key * K + t * 4);
	copy16(to + AT_Q + t * 4, x + p->key * K + t * 4);
	if (t < DELTA_COLUMNS / 4)
		copy16(to + AT_V + t * 4, x + 2 * hk + p->head * K +
		    p->column + t * 4);
	else if (t == DELTA_COLUMNS / 4)
		copy16(to + AT_GATES, x + gates_at(a) + p->head * 4);
}

/* Begins to take group g of tokens. */
DEV void
take_group(const struct part *p, u32 g, SHARED f32 *ring)
{
	u32 i;

	for (i = g * GROUP; i < (g + 1) * GROUP && i < p->n; i++) {
		SHARED f32 *to = ring + i % DELTA_AHEAD * DELTA_TOKEN;

		if (i < p->s.owed)
			take_owed(p, i, to);
		else
			copy_made(p, i, to);
	}
	copy_commit();
}

/* Makes q and k of a row, with DELTA_TAPS taps: 16 lanes have q, the others k. */
DEV void
make_key(const struct part *p, s32 t, SHARED f32 *to)
{
	const struct dev_delta *a = p->a;
	u32 lane = tid() & 15, is_k = tid() / 16 % 2, j;
	u32 c = is_k * a->n_head_k * K + p->key * K + lane;
	f32 x[8], part = 0.0f;

	convolve_eight(a, &p->s, t, c, x);
	UNROLL for (j = 0; j < 8; j++)
		part = rn_fma(x[j], x[j], part);
	part = unit_factor(add_parts(part), is_k ? 1.0f : a->q_scale);
	to += (is_k ? AT_K : AT_Q) + lane;
	UNROLL for (j = 0; j < 8; j++)
		to[j * 16] = x[j] * part;
}

/* Makes the values of a row. */
DEV void
make_value(const struct part *p, s32 t, SHARED f32 *to)
{
	const struct dev_delta *a = p->a;
	u32 lane = tid() & 31;
	struct inputs in = inputs_at(a, &p->s, t);

	to[AT_V + lane] = dev_silu(add_inputs(a, &in, 2 * a->n_head_k * K +
	    p->head * K + p->column + lane));
}

/* Makes the gates of a row. */
DEV void
make_decay(const struct part *p, s32 t, SHARED f32 *to)
{
	f32x2 g = make_gates(p->a, &p->s, t, p->head);

	to[AT_GATES] = g[0];
	to[AT_GATES + 1] = g[1];
}

/* Writes what the journal needs of a draft, for delta_finish; by a warp. */
DEV void
keep_row(const struct part *p, u32 i, const SHARED f32 *from)
{
	const struct dev_delta *a = p->a;
	GLOBAL f32 *made = a->made + (u64)(p->s.first + i - p->s.owed) *
	    a->made_stride;
	u32 hk = a->n_head_k * K, j, rep = a->n_head_v / a->n_head_k;
	u32 lane = tid() & 31;

	made[2 * hk + p->head * K + p->column + lane] =
	    from[AT_V + lane];
	if (bid_y() != 0)
		return;
	if (lane < 2)
		made[gates_at(a) + p->head * 4 + lane] =
		    from[AT_GATES + lane];
	/* the first value head of the key head */
	if (p->head != (a->grouped ? p->key * rep : p->key))
		return;
	for (j = lane; j < K; j += DELTA_COLUMNS)
		made[hk + p->key * K + j] = from[AT_K + j];
}

/*
 * All tokens of a short share, by the other warps of the block if there are some:
 * then the first one has its state to load.
 */
DEV void
take_all(const struct part *p, SHARED f32 *ring)
{
	u32 n_warp = n_threads() / 32, warp = tid() / 32, i, kind;

	if (n_warp > 1) {
		if (warp-- == 0)
			return;
		n_warp--;
	}
	for (i = warp; i < 3 * p->n; i += n_warp) {
		SHARED f32 *to = ring + i / 3 * DELTA_TOKEN;
		s32 t = (s32)(i / 3) - (s32)p->s.owed;

		kind = i % 3;
		if (t < 0 && kind == 0)
			take_owed(p, i / 3, to);
		if (t < 0)
			continue;
		if (kind == 0)
			make_key(p, t, to);
		else if (kind == 1)
			make_value(p, t, to);
		else
			make_decay(p, t, to);
	}
}

/* ---- the rule */

/* Decays the state for a token; returns its product with the key. */
DEV f32
decay(f32 *s, const SHARED f32 *x)
{
	f32 g = x[AT_GATES], kv = 0.0f;
	u32 i;

	UNROLL for (i = 0; i < K; i += 4) {
		f32x4 k = *(const SHARED f32x4 *)(x + AT_K + i);
		u32 j;

		UNROLL for (j = 0; j < 4; j++) {
			s[i + j] = s[i + j] * g;
			kv = rn_fma(s[i + j], k[j], kv);
		}
	}
	return kv;
}

/* What a token adds to the state, by a factor of its key. */
DEV f32
change_of(const SHARED f32 *x, f32 kv)
{
	return x[AT_GATES + 1] * (x[AT_V + (tid() & 31)] - kv);
}

/* Adds a token to the state, which then decays by g; returns its output. */
DEV f32
output(f32 *s, const SHARED f32 *x, f32 u, f32 g)
{
	f32 o = 0.0f;
	u32 i, j;

	UNROLL for (i = 0; i < K; i += 4) {
		f32x4 k = *(const SHARED f32x4 *)(x + AT_K + i);
		f32x4 q = *(const SHARED f32x4 *)(x + AT_Q + i);

		UNROLL for (j = 0; j < 4; j++) {
			f32 y = rn_fma(k[j], u, s[i + j]);

			o = rn_fma(y, q[j], o);
			s[i + j] = y * g;
		}
	}
	return o;
}

/* The same, but returns the product with the key of the token at next. */
DEV f32
product(f32 *s, const SHARED f32 *x, const SHARED f32 *next, f32 u, f32 g)
{
	f32 kv = 0.0f;
	u32 i, j;

	UNROLL for (i = 0; i < K; i += 4) {
		f32x4 k = *(const SHARED f32x4 *)(x + AT_K + i);
		f32x4 n = *(const SHARED f32x4 *)(next + AT_K + i);

		UNROLL for (j = 0; j < 4; j++) {
			s[i + j] = rn_fma(k[j], u, s[i + j]) * g;
			kv = rn_fma(s[i + j], n[j], kv);
		}
	}
	return kv;
}

DEV GLOBAL f32 *
state_of(const struct part *p)
{
	return (GLOBAL f32 *)(p->s.state + p->a->s) + (u64)p->head * K * K +
	    p->column + (tid() & 31);
}

DEV void
put_state(const struct part *p, const f32 *s)
{
	GLOBAL f32 *to = state_of(p);
	u32 i;

	UNROLL for (i = 0; i < K; i++)
		to[i * K] = s[i];
}

DEV void
get_state(const struct part *p, f32 *s)
{
	const GLOBAL f32 *from = state_of(p);
	u32 i;

	UNROLL for (i = 0; i < K; i++)
		s[i] = from[i * K];
}

DEV void
put_output(const struct part *p, u32 t, f32 o)
{
	if (t >= p->s.owed)
		p->a->o[(u64)(p->s.first + t - p->s.owed) * p->a->o_stride +
		    p->head * K + p->column + (tid() & 31)] = o;
}

/* ---- many tokens */

/* A token that no other follows leaves the state as it is: 1 * y is y. */
DEV int
is_end(const struct part *p, u32 t)
{
	return t + 1 == p->n_sure || t + 1 == p->n;
}

DEV SHARED f32 *
token_at(SHARED f32 *ring, u32 t)
{
	return ring + t % DELTA_AHEAD * DELTA_TOKEN;
}

/* Changes of two groups of tokens, one thread each column. */
DEV SHARED f32 *
change_at(SHARED f32 *ring, u32 t)
{
	return ring + DELTA_AHEAD * DELTA_TOKEN + t % (2 * GROUP) *
	    DELTA_COLUMNS + (tid() & 31);
}

/* The first warp: products with keys, from which changes follow. */
DEV void
follow_keys(const struct part *p, u32 g, SHARED f32 *ring, f32 *s, f32 *kv)
{
	u32 t;

	for (t = g * GROUP; t < (g + 1) * GROUP && t < p->n; t++) {
		SHARED f32 *x = token_at(ring, t), *next = token_at(ring, t + 1);
		f32 u;

		if (t == 0 || t == p->n_sure)
			*kv = decay(s, x);
		*change_at(ring, t) = u = change_of(x, *kv);
		next = is_end(p, t) ? x : next;
		*kv = product(s, x, next, u, is_end(p, t) ? 1.0f :
		    next[AT_GATES]);
		if (t + 1 == p->n_sure)		/* drafts change no state */
			put_state(p, s);
	}
}

/* The second warp: outputs, a group later. */
DEV void
follow_outputs(const struct part *p, u32 g, SHARED f32 *ring, f32 *s)
{
	u32 t, i;

	for (t = g * GROUP; t < (g + 1) * GROUP && t < p->n; t++) {
		SHARED f32 *x = token_at(ring, t);

		if (t == 0 || t == p->n_sure) {
			UNROLL for (i = 0; i < K; i++)
				s[i] = s[i] * x[AT_GATES];
		}
		put_output(p, t, output(s, x, *change_at(ring, t),
		    is_end(p, t) ? 1.0f : token_at(ring, t + 1)[AT_GATES]));
	}
}

/*
 * Rows that delta_prepare has made.  Of the ring's four groups, the first warp has
 * group g and the token after it, the second one group g - 1, and the third one
 * fetches group g + 2.  Blocks: a value head, 32 columns, a share.
 */
KERNEL(delta_rule, struct dev_delta)
{
	struct part p = part_of(&a);
	SHARED f32 *ring = (SHARED f32 *)SMEM;
	u32 n = (p.n + GROUP - 1) / GROUP, warp = tid() / 32, g;
	f32 s[K], kv = 0.0f;

	if (warp < 2) {
		get_state(&p, s);
	} else {
		take_group(&p, 0, ring);
		take_group(&p, 1, ring);
	}
	for (g = 0; g <= n; g++) {
		copy_wait(0);
		bar();
		if (warp == 2)
			take_group(&p, g + 2, ring);
		else if (warp == 0)
			follow_keys(&p, g, ring, s, &kv);
		else if (g > 0)
			follow_outputs(&p, g - 1, ring, s);
	}
}

/* ---- the only row of a share */

/* Is this warp, of n that come, the last?  Then it sees what the others wrote. */
DEV int
is_last_warp(GLOBAL u32 *counter, u32 n)
{
	u32 last = 0;

	fence();
	warp_bar();
	if ((tid() & 31) == 0) {
		last = atomic_add(counter, 1) + 1 == n;
		if (last)
			*counter = 0;
	}
	last = (u32)shfl((s32)last, 0);
	if (last)
		fence();
	return (int)last;
}

/* Counters of the share's groups, then of its key heads. */
DEV GLOBAL u32 *
counters_of(const struct part *p)
{
	return p->a->counter + bid_z() * ((p->a->n_head_v + 1) / 2 +
	    p->a->n_head_k);
}

/*
 * Moves inputs of the convolution on, by a warp, after the block has read them:
 * those of its values, and those of its key head if no other block needs them any
 * more.
 */
DEV void
move_on(const struct part *p)
{
	const struct dev_delta *a = p->a;
	u32 hk = a->n_head_k * K, lane = tid() & 31, i;
	u32 blocks = a->n_head_v / a->n_head_k * (K / DELTA_COLUMNS);

	move_inputs(a, &p->s, 2 * hk + p->head * K + p->column + lane);
	if (!is_last_warp(counters_of(p) + (a->n_head_v + 1) / 2 + p->key,
	    blocks))
		return;
	for (i = 0; i < 2 * K; i += 32)
		move_inputs(a, &p->s, (i < K ? 0 : hk) + p->key * K + i % K +
		    lane);
}

/* Norms the block's group if its results are complete. */
DEV void
end_group(const struct part *p, SHARED f32 *room)
{
	u32 g = p->head / 2, heads = p->a->n_head_v - 2 * g < 2 ? 1 : 2;

	if (is_last_warp(counters_of(p) + g, heads * (K / DELTA_COLUMNS)))
		norm_group(p->a, p->s.first, g, room);
}

/*
 * The rule for shares of at most DELTA_STEPS rows, which it makes itself; by any
 * number of warps.
 */
KERNEL(delta_step, struct dev_delta)
{
	struct part p = part_of(&a);
	SHARED f32 *ring = (SHARED f32 *)SMEM, *x;
	u32 last = n_threads() / 32 - 1, i, t;
	f32 s[K], kv = 0.0f, u;

	take_all(&p, ring);
	if (tid() < DELTA_COLUMNS)
		get_state(&p, s);
	bar();
	for (i = p.n_sure; i < p.n && tid() / 32 == last; i++)
		keep_row(&p, i, ring + i * DELTA_TOKEN);
	if (a.counter != 0 && tid() / 32 == last)
		move_on(&p);
	if (tid() >= DELTA_COLUMNS)
		return;
	for (t = 0; t < p.n; t++) {
		x = ring + t * DELTA_TOKEN;
		kv = decay(s, x);
		u = change_of(x, kv);
		/* the key is read again: it would take 128 registers */
		warp_bar();
		put_output(&p, t, output(s, x, u, 1.0f));
		if (t + 1 == p.n_sure)		/* drafts change no state */
			put_state(&p, s);
	}
	if (a.counter != 0)
		end_group(&p, ring + p.n * DELTA_TOKEN);
}
