/* SPDX-License-Identifier: ISC */
/*
 * route.c - chooses the experts of rows, and sorts them, so that an expert's rows
 * are multiplied together.
 */
#include "engine/cuda/kernel/math.h"
#include "engine/cuda/kernel/route.h"

/* A row, which a warp has. */
struct row {
	const GLOBAL f32	*logit;
	SHARED u32		*key;		/* [n_expert] 0: is chosen */
	SHARED u32		*chosen;	/* [used] the best first */
	SHARED f32		*weight;	/* [used] */
};

/* Keys are in the order of the numbers; that of a finite number is not 0. */
DEV u32
key_of(f32 x)
{
	u32 u = f32_bits(x + 0.0f);	/* -0 is 0 */

	return u >> 31 != 0 ? ~u : u | 0x80000000;
}

DEV u32
warp_max(u32 v)
{
	u32 m, o;

	for (m = 16; m > 0; m /= 2) {
		o = (u32)shfl_xor((s32)v, m);
		v = o > v ? o : v;
	}
	return v;
}

DEV u32
warp_min(u32 v)
{
	return ~warp_max(~v);
}

/* Makes the keys of the logits; returns 0 if one is not finite. */
DEV int
take_logits(const struct dev_route *a, const struct row *r)
{
	u32 e, bad = 0;
	f32 x;

	for (e = tid() & 31; e < a->n_expert; e += 32) {
		x = r->logit[e];
		bad |= !is_finite(x);
		r->key[e] = key_of(x);
	}
	return warp_max(bad) == 0;
}

/* Chooses the experts with the largest logits; of equal ones, the first. */
DEV void
choose(const struct dev_route *a, const struct row *r)
{
	u32 lane = tid() & 31, i, e, best = 0, at = 0, expert;

	for (i = 0, expert = lane; i < a->used; i++) {
		/* the lane whose best one was chosen finds the next */
		if (expert % 32 == lane) {
			best = 0;
			for (e = lane; e < a->n_expert; e += 32) {
				at = r->key[e] > best ? e : at;
				best = r->key[e] > best ? r->key[e] : best;
			}
		}
		expert = warp_min(best == warp_max(best) ? at : ~0u);
		if (expert % 32 == lane) {
			r->key[expert] = 0;
			r->chosen[i] = expert;
		}
	}
	warp_bar();
}

/* Sets the weights, before they are divided; returns by what. */
DEV f32
weigh(const struct dev_route *a, const struct row *r)
{
	SHARED f32 *each = (SHARED f32 *)r->key;
	f32 sum = 0.0f, first = r->logit[r->chosen[0]];
	u32 i;

	for (i = tid() & 31; i < a->used; i += 32)
		r->weight[i] = dev_exp(r->logit[r->chosen[i]] - first);
	for (i = tid() & 31; i < a->n_expert && a->share_of_all; i += 32)
		each[i] = dev_exp(r->logit[i] - first);
	warp_bar();
	for (i = 0; i < a->used && !a->share_of_all; i++)
		sum = sum + r->weight[i];
	for (i = 0; i < a->n_expert && a->share_of_all; i++)
		sum = sum + each[i];
	return sum;
}

DEV void
route_row(const struct dev_route *a, const struct row *r, u32 t)
{
	GLOBAL f32 *share = a->share + (u64)t * a->share_stride;
	GLOBAL u32 *chosen = a->chosen + (u64)t * a->chosen_stride;
	u32 i, j, n, lane = tid() & 31;
	f32 sum = 0.0f, x, nan = bits_f32(0x7fc00000);
	int is_good = take_logits(a, r);

	warp_bar();
	if (is_good) {
		choose(a, r);
		sum = weigh(a, r);
	}
	for (i = lane; i < a->used; i += 32) {
		if (!is_good) {		/* any ones: all make NaN */
			share[i] = nan;
			chosen[i] = i;
			continue;
		}
		for (j = 0, n = 0; j < a->used; j++)
			n += r->chosen[j] < r->chosen[i];
		share[n] = r->weight[i] / sum * a->scale;
		chosen[n] = r->chosen[i];
	}
	if (lane == 0 && a->has_shared) {
		x = r->logit[a->n_expert];
		share[a->used] = is_finite(x) ? dev_sigmoid(x) : nan;
	}
}

/* ---- sorting */

/* Sets the numbers of count to the sums of those before them; by a warp. */
DEV void
add_up(SHARED u32 *count, u32 n)
{
	u32 lane = tid() & 31, each = (n + 31) / 32, i, m, sum = 0, o;
	u32 from = lane * each < n ? lane * each : n;
	u32 to = from + each < n ? from + each : n;

	for (i = from; i < to; i++)
		sum += count[i];
	o = sum;
	for (m = 1; m < 32; m *= 2) {
		u32 v = (u32)shfl((s32)sum, lane - m);

		sum += lane >= m ? v : 0;
	}
	sum -= o;
	for (i = from; i < to; i++) {
		o = count[i];
		count[i] = sum;
		sum += o;
	}
}

/* Sorts the experts of all rows, by a block. */
DEV void
sort_chosen(const struct dev_route *a, SHARED u32 *count)
{
	u32 n = a->n * a->used, i, e;

	for (i = tid(); i < a->n_expert; i += n_threads())
		count[i] = 0;
	bar();
	for (i = tid(); i < n; i += n_threads())
		atomic_add_shared(&count[a->chosen[i / a->used *
		    (u64)a->chosen_stride + i % a->used]], 1);
	bar();
	if (tid() < 32)
		add_up(count, a->n_expert);
	bar();
	for (i = tid(); i < a->n_expert; i += n_threads())
		a->first[i] = count[i];
	if (tid() == 0)
		a->first[a->n_expert] = n;
	bar();
	for (i = tid(); i < n; i += n_threads()) {
		e = a->chosen[i / a->used * (u64)a->chosen_stride +
		    i % a->used];
		a->at[atomic_add_shared(&count[e], 1)] = i;
	}
}

/*
 * Chooses the experts of rows; a warp has a row.  If there is one block, it also
 * sorts them.
 */
KERNEL(route, struct dev_route)
{
	u32 n_warp = n_threads() / 32, warp = tid() / 32;
	u32 t = bid() * n_warp + warp;
	struct row r;

	r.logit = a.logit + (u64)t * a.logit_stride;
	r.key = (SHARED u32 *)(SMEM + warp * ROUTE_BYTES(a.n_expert, a.used));
	r.chosen = r.key + a.n_expert;
	r.weight = (SHARED f32 *)(r.chosen + a.used);
	if (t < a.n)
		route_row(&a, &r, t);
	if (n_blocks() > 1)
		return;
	bar();
	sort_chosen(&a, (SHARED u32 *)SMEM);
}

/* Sorts the experts of rows, after `route' with several blocks. */
KERNEL(sort_experts, struct dev_route)
{
	sort_chosen(&a, (SHARED u32 *)SMEM);
}
