/* SPDX-License-Identifier: ISC */
/*
 * attend.c - attention, for all sizes and types: queries, keys and values are
 * prepared, and each query attends to chunks of 256 keys.
 *
 * Where keys are integers, a query becomes d integers of 16 bits and a factor,
 * which replace its numbers in memory.
 */
#include "engine/cuda/kernel/attend_head.h"

/* Multiplies a warp's head by Hadamard matrices. */
DEV void
rotate(SHARED f32 *x, u32 d)
{
	u32 piece = d & -d, lane = tid() & 31, h, i;
	f32 k = 1.0f / rn_sqrt((f32)piece);

	for (h = piece / 2; h > 0; h /= 2) {
		add_pairs(x, d, h, lane, 32);
		warp_bar();
	}
	for (i = lane; i < d; i += 32)
		x[i] = x[i] * k;
	warp_bar();
}

/* ---- queries, keys and values of a row: a warp each head */

/*
 * Returns the scale, in f16, of the warp's 32 numbers, one of which is in each
 * lane.  It is NaN or infinite if the numbers have no scale.
 */
DEV u16
scale_of(f32 x, u32 type)
{
	f32 most = x, o;
	u32 at = tid() & 31, i, o_at;

	/* the first of equal magnitudes gives the sign */
	UNROLL for (i = 1; i < 32; i *= 2) {
		o = shfl_xor_f32(most, i);
		o_at = (u32)shfl((s32)at, (tid() & 31) ^ i);
		/* as integers, so that a NaN or infinity is the largest */
		if (f32_bits(magnitude(o)) > f32_bits(magnitude(most)) ||
		    (magnitude(o) == magnitude(most) && o_at < at)) {
			most = o;
			at = o_at;
		}
	}
	return !is_finite(most) ? 0x7e00 : f32_f16(type == QWEN_KV_Q8_0 ?
	    magnitude(most) / 127.0f : most / -8.0f);
}

/* If a number cannot become an integer, writes zeros and returns 0. */
DEV int
put_integers(const struct dev_kv *kv, u32 at, SHARED f32 *x)
{
	u32 lane = tid() & 31, g, other;
	f32 least = kv->type == QWEN_KV_Q8_0 ? -127.0f : -8.0f;
	f32 most = kv->type == QWEN_KV_Q8_0 ? 127.0f : 7.0f, f, y;
	int ok = 1;
	u16 scale;
	s32 q;

	rotate(x, kv->d);
	for (g = 0; g < kv->d / QWEN_KV_GROUP; g++)
		ok &= is_finite(f16_f32(scale_of(x[g * QWEN_KV_GROUP + lane],
		    kv->type)));
	for (g = 0; g < kv->d / QWEN_KV_GROUP; g++) {
		u32 i = g * QWEN_KV_GROUP + lane;
		GLOBAL u8 *p = kv->p + qwen_kv_number_at(kv->type, kv->d,
		    kv->is_v, at, i);

		scale = scale_of(x[i], kv->type);
		scale = ok ? scale : 0;
		f = f16_f32(scale);
		y = f == 0.0f ? 0.0f : rn_int(x[i] * (1.0f / f));
		y = y < most ? y : most;
		q = (s32)(y > least ? y : least);
		other = (u32)shfl_xor(q, 16);
		if (kv->type == QWEN_KV_Q8_0)
			*p = (u8)q;
		else if (lane < 16)
			*p = (u8)(((u32)q + 8) | (other + 8) << 4);
		if (lane == 0)
			*kv_scale(kv, at, g) = scale;
	}
	return ok;
}

DEV int
put(const struct dev_kv *kv, u32 at, SHARED f32 *x)
{
	u32 i;

	if (has_integers(kv->type))
		return put_integers(kv, at, x);
	for (i = tid() & 31; i < kv->d; i += 32)
		kv_put_float(kv, at, i, x[i]);
	return 1;
}

/* A query for integer keys; returns 0 if a number is not finite. */
DEV int
put_query(GLOBAL f32 *to, SHARED f32 *x, u32 d)
{
	GLOBAL s16 *q = (GLOBAL s16 *)to;
	f32 most = 0.0f, k;
	s32 bad = 0;
	u32 i;

	rotate(x, d);
	for (i = tid() & 31; i < d; i += 32) {
		bad |= !is_finite(x[i]);
		most = larger(magnitude(x[i]), most);
	}
	most = warp_max(most);
	UNROLL for (i = 1; i < 32; i *= 2)
		bad |= shfl_xor(bad, i);
	k = most >= 0x1p-100f && !bad ? 32767.0f / most : 0.0f;
	for (i = tid() & 31; i < d; i += 32)
		q[i] = k > 0.0f ? (s16)rn_int(x[i] * k) : 0;
	if ((tid() & 31) == 0)
		to[d / 2] = k > 0.0f ? most / 32767.0f : 0.0f;
	return !bad;
}

/*
 * Blocks: rows, DEV_PREPARE_WARPS heads of queries, keys, values.  The values are
 * appended as they are, keys after norm and RoPE, queries stay in `in'.
 */
KERNEL(attend_prepare, struct dev_attend)
{
	const u32 t = bid(), lane = tid() & 31;
	u32 head = bid_y() * DEV_PREPARE_WARPS + tid() / 32, i, at, ok = 1;
	SHARED f32 *x = (SHARED f32 *)SMEM + tid() / 32 * a.d;
	GLOBAL f32 *p = a.in + (u64)t * a.in_width;
	const GLOBAL struct dev_row *row = a.pass.row + t;
	struct dev_kv kv;

	if (head >= a.n_head + 2 * a.n_head_kv ||
	    (head < a.n_head && !row->wanted))
		return;
	p += head < a.n_head ? head * a.step : a.n_head * a.step + (head -
	    a.n_head) * a.d;
	for (i = lane; i < a.d; i += 32)
		x[i] = p[i];
	warp_bar();
	if (head < a.n_head + a.n_head_kv) {
		const GLOBAL f32 *w = head < a.n_head ? a.q_norm : a.k_norm;

		if (w)
			norm_head(x, w, a.d, a.eps);
		turn_head(x, a.turn + (u64)t * a.turn_width, a.n_rot / 2);
	}
	if (head >= a.n_head) {
		head -= a.n_head;
		at = row->slot % QWEN_KV_BLOCK;
		kv = cache_at(&a, t, row->slot, head % a.n_head_kv,
		    head >= a.n_head_kv);
		ok = (u32)put(&kv, at, x);
	} else {
		for (i = lane; i < a.d; i += 32)
			x[i] = x[i] * a.scale;
		warp_bar();
		if (has_integers(a.k))
			ok = (u32)put_query(p, x, a.d);
		else
			for (i = lane; i < a.d; i += 32)
				p[i] = x[i];
	}
	if (!ok && lane == 0)
		note_bad(&a.pass, t, a.place);
}

/* ---- a query and a chunk: a thread each key, then each number of the values */

/* The score of a key at 0 .. 15 of a block. */
DEV f32
score(const struct dev_kv *kv, u32 at, const SHARED f32 *q, f32 scale)
{
	f32 sum = 0.0f;
	s32 whole;
	u32 g, i;

	if (!has_integers(kv->type)) {
		for (i = 0; i < kv->d; i++)
			sum = rn_fma(q[i], kv_float(kv, at, i), sum);
		return sum;
	}
	for (g = 0; g < kv->d / QWEN_KV_GROUP; g++) {
		whole = 0;
		for (i = g * QWEN_KV_GROUP; i < (g + 1) * QWEN_KV_GROUP; i++)
			whole += (s32)q[i] * kv_integer(kv, at, i);
		sum = rn_fma((f32)whole, f16_f32(*kv_scale(kv, at, g)), sum);
	}
	return sum * scale;
}

/* The maximum of all threads; each warp's is put to `each'. */
DEV f32
block_max(SHARED f32 *each, f32 x)
{
	u32 i;

	x = warp_max(x);
	bar();
	if ((tid() & 31) == 0)
		each[tid() / 32] = x;
	bar();
	for (i = 0; i < n_threads() / 32; i++)
		x = larger(x, each[i]);
	return x;
}

/* What makes weights of values integers: their factor; *most: and its inverse */
DEV f32
value_factor(const struct dev_kv *kv, u32 at, f32 p, SHARED f32 *each,
    f32 *back)
{
	f32 most = 0.0f;
	u32 g;

	for (g = 0; kv->p && g < kv->d / QWEN_KV_GROUP; g++)
		most = larger(p * magnitude(f16_f32(*kv_scale(kv, at, g))),
		    most);
	most = block_max(each, most);
	*back = most / 32767.0f;
	return most >= 0x1p-100f ? 32767.0f / most : 0.0f;
}

/*
 * Number i of the sum of n values from a slot on, weighted with p; of integers,
 * the weights are integers after their product with k.
 */
DEV f32
weighted(const struct dev_attend *a, u32 t, u32 slot, u32 head, u32 n,
    const SHARED f32 *p, u32 i, f32 k, f32 back)
{
	struct dev_kv kv = { 0 };
	f32 o = 0.0f;
	s32 sum = 0;
	u32 key;

	for (key = 0; key < n; key++) {
		if (key % QWEN_KV_BLOCK == 0)
			kv = cache_at(a, t, slot + key, head, 1);
		if (!has_integers(a->v))
			o = rn_fma(p[key], kv_float(&kv, key % 16, i), o);
		else
			sum += (s32)rn_int(p[key] * k * f16_f32(*kv_scale(&kv,
			    key % 16, i / QWEN_KV_GROUP))) *
			    kv_integer(&kv, key % 16, i);
	}
	return !has_integers(a->v) ? o : k > 0.0f ? (f32)sum * back : 0.0f;
}

/* Blocks: heads of queries of rows, chunks. */
KERNEL(attend_chunk, struct dev_attend)
{
	SHARED f32 *q = (SHARED f32 *)SMEM, *p = q + a.d, *each = p + DEV_CHUNK;
	const u32 i = bid() / a.n_head, t = a.first + i, h = bid() % a.n_head;
	const u32 head = h / (a.n_head / a.n_head_kv), c = bid_y();
	const u32 slot = c * DEV_CHUNK + tid(), end = a.pass.row[t].slot + 1;
	const GLOBAL f32 *from = a.in + (u64)t * a.in_width + h * a.step;
	GLOBAL f32 *to = a.part + ((u64)bid() * a.n_chunk + c) * DEV_PART(a.d);
	struct dev_kv kv = { 0 };
	f32 s = LEAST, m, k = 0.0f, back = 0.0f, l = 0.0f;
	u32 n, e;

	if (!a.pass.row[t].wanted || c * DEV_CHUNK >= end)
		return;
	n = end - c * DEV_CHUNK < DEV_CHUNK ? end - c * DEV_CHUNK : DEV_CHUNK;
	for (e = tid(); e < a.d; e += n_threads())
		q[e] = has_integers(a.k) ? (f32)((const GLOBAL s16 *)from)[e] :
		    from[e];
	bar();
	if (tid() < n) {
		kv = cache_at(&a, t, slot, head, 0);
		s = score(&kv, slot % QWEN_KV_BLOCK, q, from[a.d / 2]);
		kv = cache_at(&a, t, slot, head, 1);
	}
	m = block_max(each, s);
	p[tid()] = tid() < n ? dev_exp(s - m) : 0.0f;
	bar();
	if (tid() < 32) {
		for (e = tid() & 15; e < n; e += 16)
			l = l + p[e];
		l = add_parts(l);
	}
	if (has_integers(a.v))
		k = value_factor(&kv, slot % QWEN_KV_BLOCK, p[tid()], each,
		    &back);
	for (e = tid(); e < a.d; e += n_threads())
		to[e] = weighted(&a, t, c * DEV_CHUNK, head, n, p, e, k, back);
	if (tid() == 0) {
		to[a.d] = m;
		to[a.d + 1] = l;
	}
}
