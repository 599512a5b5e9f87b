/* SPDX-License-Identifier: ISC */
/*
 * attend_merge.c - results of chunks become that of attention: they are merged in
 * their order, rotated back if values are integers, and gated.
 *
 * attend_join does so for 256 numbers of a row, where heads divide these, and
 * makes their group for the product that comes next; attend_merge for a head of
 * any size.
 */
#include "engine/cuda/kernel/attend_join.h"

/* ---- a head of any size */

/*
 * Sets e[i][0 .. 1] to the factors of what is merged so far, whose largest score
 * is m, and of chunk i; returns the largest of all.
 */
DEV f32
merge_factors(const GLOBAL f32 *part, u32 d, u32 n, SHARED f32 *m,
    SHARED f32x2 *e, f32 before)
{
	u32 i, j;

	bar();
	for (i = tid(); i < n; i += n_threads())
		m[i] = part[(u64)i * DEV_PART(d) + d];
	bar();
	for (i = 0; i < n; i++) {
		f32 top = larger(before, m[i]);

		j = i % n_threads();
		if (tid() == j)
			e[i] = (f32x2){ dev_exp(before - top),
			    dev_exp(m[i] - top) };
		before = top;
	}
	bar();
	return before;
}

/* Blocks: heads of queries of rows. */
KERNEL(attend_merge, struct dev_attend)
{
	SHARED f32x2 *e = (SHARED f32x2 *)SMEM;		/* [DEV_CHUNK] */
	SHARED f32 *m = (SHARED f32 *)(e + DEV_CHUNK);	/* [DEV_CHUNK] */
	SHARED f32 *o = m + DEV_CHUNK;	/* [d + 1], the sum of weights last */
	const u32 t = a.first + bid() / a.n_head, h = bid() % a.n_head;
	const u32 n = a.pass.row[t].slot / DEV_CHUNK + 1;
	const GLOBAL f32 *part = a.part + (u64)bid() * a.n_chunk *
	    DEV_PART(a.d);
	const GLOBAL f32 *gate = a.in + (u64)t * a.in_width + h * a.step + a.d;
	f32 top = part[a.d], back;
	u32 c, i, j, some, piece = a.d & -a.d;

	if (!a.pass.row[t].wanted)
		return;
	for (i = tid(); i <= a.d; i += n_threads())
		o[i] = part[i + (i == a.d)];
	for (c = 1; c < n; c += some) {
		const GLOBAL f32 *p = part + (u64)c * DEV_PART(a.d);

		some = n - c < DEV_CHUNK ? n - c : DEV_CHUNK;
		top = merge_factors(p, a.d, some, m, e, top);
		for (i = tid(); i <= a.d; i += n_threads())
			for (j = 0; j < some; j++)
				o[i] = rn_fma(o[i], e[j][0], p[(u64)j *
				    DEV_PART(a.d) + i + (i == a.d)] * e[j][1]);
	}
	bar();
	back = 1.0f / o[a.d];
	for (i = tid(); i < a.d; i += n_threads())
		o[i] = rn_fma(o[i], back, 0.0f);
	for (j = has_integers(a.v) ? piece / 2 : 0; j > 0; j /= 2) {
		bar();
		add_pairs(o, a.d, j, tid(), n_threads());
	}
	bar();
	back = has_integers(a.v) ? 1.0f / rn_sqrt((f32)piece) : 1.0f;
	for (i = tid(); i < a.d; i += n_threads()) {
		f32 y = o[i] * back;

		if (a.step > a.d)
			y = gated(y, gate[i]);
		a.out[(u64)t * a.out_width + h * a.d + i] = y;
	}
}

/* ---- 256 numbers of a row */

enum { SPAN = DEV_JOIN_SPAN, N = DEV_JOIN };

/* Multiplies the numbers by Hadamard matrices of size d; all threads come. */
DEV f32
rotate_back(SHARED f32 *x, f32 y, u32 d)
{
	u32 h;
	f32 u, w;

	x[tid()] = y;
	for (h = d / 2; h > 0; h /= 2) {
		bar();
		u = x[tid() & ~h];
		w = x[tid() | h];
		bar();
		x[tid()] = tid() & h ? u - w : u + w;
	}
	return x[tid()] * (1.0f / rn_sqrt((f32)d));
}

/* Blocks: 256 numbers of rows. */
KERNEL(attend_join, struct dev_attend)
{
	const u32 nb = (a.n_head * a.d + N - 1) / N, g = bid() % nb, r = bid() / nb;
	const u32 t = a.first + r, heads = N / a.d, dim = tid() % a.d;
	const u32 head = g * heads + tid() / a.d, lane = tid() % 32;
	const u32 n = a.pass.row[t].slot / DEV_CHUNK + 1, first = tid() / a.d *
	    SPAN;
	const u64 head_step = (u64)a.n_chunk * DEV_PART(a.d);
	const GLOBAL f32 *part = a.part + ((u64)r * a.n_head + g * heads) *
	    head_step;
	const GLOBAL f32 *p = part + tid() / a.d * head_step + dim;
	const int used = head < a.n_head;
	struct join j = { .e = (SHARED f32x2 *)SMEM };
	f32 o = 0.0f, l = 0.0f, v[8];
	u32 c, i, some;

	/* while factors are computed */
	UNROLL for (i = 0; i < 8; i++)
		v[i] = used && i < a.n_chunk ? p[(u64)i * DEV_PART(a.d)] : 0.0f;
	if (!a.pass.row[t].wanted)
		return;
	j.l = (SHARED f32 *)(j.e + heads * SPAN);
	j.top = j.l + heads * SPAN;
	j.x = j.top + heads;
	if (tid() < heads)
		j.top[tid()] = LEAST;
	for (c = 0; c < n; c += some) {
		some = n - c < SPAN ? n - c : SPAN;
		bar();
		for (i = tid() / 32; i < heads && g * heads + i < a.n_head;
		    i += N / 32)
			join_factors(&j, part + i * head_step +
			    (u64)c * DEV_PART(a.d), i, a.d, some);
		bar();
		UNROLL for (i = 0; i < 8; i++)
			if (c == 0 && i < some)
				add_chunk(&o, &l, v[i], &j, first + i);
		UNROLL_8 for (i = c == 0 ? 8 : 0; used && i < some; i++)
			add_chunk(&o, &l, p[(u64)(c + i) * DEV_PART(a.d)], &j,
			    first + i);
	}
	o = used ? rn_fma(o, 1.0f / l, 0.0f) : 0.0f;
	if (has_integers(a.v))
		o = rotate_back(j.x, o, a.d);
	if (used && a.step > a.d)
		o = gated(o, a.in[(u64)t * a.in_width + head * a.step + a.d +
		    dim]);
	if (used)
		a.out[(u64)t * a.out_width + head * a.d + dim] = o;
	if (!a.groups)
		return;
	j.x[tid()] = o;
	bar();
	if (tid() < 32) {
		UNROLL for (i = 0; i < 8; i++)
			v[i] = j.x[8 * lane + i];
		make_groups((GLOBAL struct dev_group *)(a.groups + t *
		    a.group_bytes), g, nb, v, a.two);
	}
}
