/* SPDX-License-Identifier: ISC */
/*
 * deltanet.c - gated DeltaNet around the delta rule, and the rule for states of
 * any size.
 */
#include "engine/cuda/kernel/delta_end.h"

/*
 * A head of q or k, from channel c on, by 16 lanes: the convolution, and the l2
 * norm times scale.  made is NULL where there is no row, as all lanes of a warp
 * must come.
 */
DEV void
make_unit(const struct dev_delta *a, const struct dev_share *s, s32 t, u32 c,
    f32 scale, GLOBAL f32 *made)
{
	u32 lane = tid() & 15, i;
	f32 part = 0.0f, x;

	for (i = lane; i < a->dk; i += 16) {
		x = convolve(a, s, t, c + i);
		part = rn_fma(x, x, part);
		if (made != 0)
			made[c + i] = x;
	}
	x = unit_factor(add_parts(part), scale);
	for (i = lane; i < a->dk && made != 0; i += 16)
		made[c + i] *= x;
}

/* The same with dk of 128, and DELTA_TAPS taps. */
DEV void
make_unit_128(const struct dev_delta *a, const struct dev_share *s, s32 t,
    u32 c, f32 scale, GLOBAL f32 *made)
{
	u32 lane = tid() & 15, i;
	f32 part = 0.0f, x[8];

	convolve_eight(a, s, t, c + lane, x);
	UNROLL for (i = 0; i < 8; i++)
		part = rn_fma(x[i], x[i], part);
	part = unit_factor(add_parts(part), scale);
	if (made == 0)
		return;
	UNROLL for (i = 0; i < 8; i++)
		made[c + lane + i * 16] = x[i] * part;
}

/* The values of a head, from channel c on, by 16 lanes. */
DEV void
make_values(const struct dev_delta *a, const struct dev_share *s, s32 t, u32 c,
    GLOBAL f32 *made)
{
	u32 lane = tid() & 15, i;
	f32 x[8];

	if (a->dv == 128 && a->taps == DELTA_TAPS) {
		convolve_eight(a, s, t, c + lane, x);
		UNROLL for (i = 0; i < 8; i++)
			made[c + lane + i * 16] = x[i];
		return;
	}
	for (i = lane; i < a->dv; i += 16)
		made[c + i] = convolve(a, s, t, c + i);
}

/*
 * What the rule takes of each row.  A block has DELTA_ROWS rows, of 16 lanes
 * each; x: a head of q, of k, of v, or the gates.
 */
KERNEL(delta_prepare, struct dev_delta)
{
	u32 row = bid_y() * DELTA_ROWS + tid() / 16, part = bid(), i, c;
	u32 lane = tid() & 15, hk = a.n_head_k;
	int is_there = row < a.pass.n;
	struct dev_share s;
	GLOBAL f32 *made;
	f32x2 g;
	s32 t;

	row = is_there ? row : a.pass.n - 1;
	s = share_at(&a, a.pass.row[row].share);
	made = is_there ? a.made + (u64)row * a.made_stride : 0;
	t = (s32)(row - s.first);
	if (part < 2 * hk) {
		if (a.dk == 128 && a.taps == DELTA_TAPS)
			make_unit_128(&a, &s, t, part * a.dk, part < hk ?
			    a.q_scale : 1.0f, made);
		else
			make_unit(&a, &s, t, part * a.dk, part < hk ?
			    a.q_scale : 1.0f, made);
		return;
	}
	if (!is_there)
		return;
	if (part < 2 * hk + a.n_head_v) {
		c = 2 * hk * a.dk + (part - 2 * hk) * a.dv;
		make_values(&a, &s, t, c, made);
		return;
	}
	for (i = lane; i < a.n_head_v; i += 16) {
		g = make_gates(&a, &s, t, i);
		made[gates_at(&a) + 4 * i] = g[0];
		made[gates_at(&a) + 4 * i + 1] = g[1];
	}
}

/* ---- after the rule */

/* The RMS norm of a head of o, times silu(z), by 16 lanes; written if there. */
DEV void
norm_head(const struct dev_delta *a, u32 row, u32 head, int is_there)
{
	GLOBAL f32 *o = a->o + (u64)row * a->o_stride + head * a->dv;
	const GLOBAL f32 *z = a->in + (u64)row * a->in_stride + n_channel(a) +
	    head * a->dv;
	u32 lane = tid() & 15, i;
	f32 part = 0.0f, r;

	for (i = lane; i < a->dv; i += 16)
		part = rn_fma(o[i], o[i], part);
	part = add_parts(part);
	r = 1.0f / rn_sqrt(part / (f32)a->dv + a->eps);
	for (i = lane; i < a->dv && is_there; i += 16)
		o[i] = o[i] * r * a->norm[i] * dev_silu(z[i]);
}

/*
 * Moves inputs on, and notes drafts in the journal; a thread has channel c.  The
 * journal's inputs are read before new ones are written.
 */
DEV void
note_channel(const struct dev_delta *a, const struct dev_share *s, u32 c)
{
	u32 nc = n_channel(a), i, k = a->n_head_k * a->dk;
	const GLOBAL f32 *made, *gates;
	GLOBAL f32 *note;
	struct gates at;

	move_inputs(a, s, c);
	for (i = s->n_sure; i < s->n; i++) {
		note = journal_at(a, s, (s32)i);
		made = a->made + (u64)(s->first + i) * a->made_stride;
		note[c] = input_at(a, s, (s32)i)[c];
		if (c >= k)
			note[nc + c - k] = made[c];
		if (c >= a->n_head_v)
			continue;
		at = find_gates(a, c);
		gates = made + gates_at(a) + 4 * c;
		note[nc + nc - k + at.alpha] = gates[0];
		note[nc + nc - k + at.beta] = gates[1];
	}
}

/* A block lets a session keep what it needs: block b of all that note. */
DEV void
note_block(const struct dev_delta *a, u32 b)
{
	u32 n = (n_channel(a) + DELTA_THREADS - 1) / DELTA_THREADS;
	u32 c = b % n * DELTA_THREADS + tid();
	struct dev_share s = share_at(a, b / n);

	if (c < n_channel(a))
		note_channel(a, &s, c);
}

/*
 * Blocks: a head and DELTA_ROWS rows to norm; then, of each share, DELTA_THREADS
 * channels to note.
 */
KERNEL(delta_finish, struct dev_delta)
{
	u32 n = (a.pass.n + DELTA_ROWS - 1) / DELTA_ROWS * a.n_head_v;
	u32 b = bid(), row = b / a.n_head_v * DELTA_ROWS + tid() / 16;
	int is_there = row < a.pass.n;

	if (b >= n)
		note_block(&a, b - n);
	else
		norm_head(&a, is_there ? row : a.pass.n - 1, b % a.n_head_v,
		    is_there);
}

/* The same for dv of 128.  Blocks: DELTA_GROUPS groups of rows; then notes. */
KERNEL(delta_finish_128, struct dev_delta)
{
	u32 each = (a.n_head_v + 1) / 2, n_group = a.pass.n * each;
	u32 n = (n_group + DELTA_GROUPS - 1) / DELTA_GROUPS, b = bid();
	u32 g = b * DELTA_GROUPS + tid() / 32;

	if (b >= n)
		note_block(&a, b - n);
	else if (g < n_group)
		norm_group(&a, g / each, g % each, (SHARED f32 *)SMEM +
		    tid() / 32 * 256);
}

/* ---- the rule for states of any size, in the block's memory */

/* What the rule takes of a token for a head. */
struct token { const GLOBAL f32 *q, *k, *v; f32 decay, beta; };

DEV struct token
token_at(const struct dev_delta *a, const struct dev_share *s, s32 t, u32 head)
{
	u32 nc = n_channel(a), key = key_head(a, head) * a->dk;
	u32 k = a->n_head_k * a->dk;
	struct gates at = find_gates(a, head);
	const GLOBAL f32 *x;
	struct token r;

	if (t < 0) {
		x = journal_at(a, s, t) + nc;
		r.k = r.q = x + key;
		r.v = x + k + head * a->dv;
		r.decay = x[nc - k + at.alpha];
		r.beta = x[nc - k + at.beta];
		return r;
	}
	x = a->made + (u64)(s->first + (u32)t) * a->made_stride;
	r.q = x + key;
	r.k = x + k + key;
	r.v = x + 2 * k + head * a->dv;
	r.decay = x[gates_at(a) + 4 * head];
	r.beta = x[gates_at(a) + 4 * head + 1];
	return r;
}

/* Applies a token to a column, whose numbers are `step' apart. */
DEV f32
apply_rule(SHARED f32 *s, u32 step, u32 dk, const struct token *x, u32 c)
{
	f32 kv = 0.0f, o = 0.0f, u;
	u32 d;

	for (d = 0; d < dk; d++) {
		s[d * step] *= x->decay;
		kv = rn_fma(s[d * step], x->k[d], kv);
	}
	u = x->beta * (x->v[c] - kv);
	for (d = 0; d < dk; d++) {
		s[d * step] = rn_fma(x->k[d], u, s[d * step]);
		o = rn_fma(s[d * step], x->q[d], o);
	}
	return o;
}

/* Blocks: a value head, `columns' columns, a share. */
KERNEL(delta_any, struct dev_delta)
{
	u32 head = bid(), c = bid_y() * a.columns + tid(), d, step = a.columns;
	SHARED f32 *s = (SHARED f32 *)SMEM + tid();
	struct dev_share p = share_at(&a, bid_z());
	GLOBAL f32 *to = (GLOBAL f32 *)(p.state + a.s) +
	    (u64)head * a.dk * a.dv + c;
	struct token x;
	f32 o;
	s32 t;

	if (tid() >= a.columns || c >= a.dv)
		return;
	for (d = 0; d < a.dk; d++)
		s[d * step] = to[(u64)d * a.dv];
	for (t = -(s32)p.owed; ; t++) {
		if (t == (s32)p.n_sure) {	/* drafts change no state */
			for (d = 0; d < a.dk; d++)
				to[(u64)d * a.dv] = s[d * step];
		}
		if (t >= (s32)p.n)
			break;
		x = token_at(&a, &p, t, head);
		o = apply_rule(s, step, a.dk, &x, c);
		if (t >= 0)
			a.o[(u64)(p.first + (u32)t) * a.o_stride +
			    head * a.dv + c] = o;
	}
}
