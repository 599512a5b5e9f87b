/* SPDX-License-Identifier: ISC */
/* route_row.h - chooses the experts of a row. */
#ifndef QWEN_CUDA_ROUTE_ROW_H
#define QWEN_CUDA_ROUTE_ROW_H

#include "engine/cuda/kernel/math.h"
#include "engine/cuda/kernel/route.h"

enum { KEYS = 8 };	/* keys that a lane has in registers */

/* A row, which a warp has. */
struct row {
	const GLOBAL f32	*logit;
	SHARED u32		*key;		/* [n_expert] 0: is chosen */
	SHARED u32		*best;		/* [used] chosen, the best first */
	SHARED f32		*weight;	/* [used] theirs */
	SHARED u32		*chosen;	/* [each] the same, ascending */
};

/* Keys are in the order of the numbers; that of a finite number is not 0. */
DEV u32
key_of(f32 x)
{
	u32 u = f32_bits(x + 0.0f);	/* -0 is 0 */

	return u >> 31 != 0 ? ~u : u | 0x80000000;
}

DEV f32
of_key(u32 key)
{
	return bits_f32(key >> 31 != 0 ? key & 0x7fffffff : ~key);
}

/*
 * Chooses the experts with the largest logits; of equal ones, the first.  Sets
 * their weights to the logits.  Returns 0 if a logit is not finite.
 */
DEV int
choose_any(const struct dev_route *a, const struct row *r)
{
	u32 lane = tid() & 31, i, e, best = 0, at = 0, expert, bad = 0, top;

	for (e = lane; e < a->n_expert; e += 32) {
		r->key[e] = key_of(r->logit[e]);
		bad |= !is_finite(r->logit[e]);
	}
	if (warp_most(bad) != 0)
		return 0;
	for (i = 0, expert = lane; i < a->used; i++) {
		/* the lane whose best one was chosen finds the next */
		if (expert % 32 == lane) {
			best = 0;
			for (e = lane; e < a->n_expert; e += 32) {
				at = r->key[e] > best ? e : at;
				best = r->key[e] > best ? r->key[e] : best;
			}
		}
		top = warp_most(best);
		expert = ~warp_most(best == top ? ~at : 0);
		if (expert % 32 == lane) {
			r->key[expert] = 0;
			r->best[i] = expert;
			r->weight[i] = of_key(top);
		}
	}
	return 1;
}

/* The same for up to 256 experts. */
DEV int
choose_few(const struct dev_route *a, const struct row *r)
{
	u32 lane = tid() & 31, key[KEYS], i, j, best, at, expert, bad = 0, top;
	f32 x[KEYS];

	/* there is a load for each, so that none waits */
	UNROLL for (j = 0; j < KEYS; j++)
		x[j] = r->logit[lane + 32 * j < a->n_expert ? lane + 32 * j :
		    0];
	UNROLL for (j = 0; j < KEYS; j++) {
		key[j] = lane + 32 * j < a->n_expert ? key_of(x[j]) : 0;
		bad |= !is_finite(x[j]);
	}
	if (warp_most(bad) != 0)
		return 0;
	for (i = 0; i < a->used; i++) {
		best = key[0];
		at = lane;
		UNROLL for (j = 1; j < KEYS; j++) {
			at = key[j] > best ? lane + 32 * j : at;
			best = key[j] > best ? key[j] : best;
		}
		top = warp_most(best);
		expert = ~warp_most(best == top ? ~at : 0);
		UNROLL for (j = 0; j < KEYS; j++)
			key[j] = lane + 32 * j == expert ? 0 : key[j];
		if (lane == 0) {
			r->best[i] = expert;
			r->weight[i] = of_key(top);
		}
	}
	return 1;
}

/* Sets the weights, before they are divided; returns by what. */
DEV f32
weigh(const struct dev_route *a, const struct row *r)
{
	SHARED f32 *each = (SHARED f32 *)r->key;
	f32 sum = 0.0f, first = r->weight[0];
	u32 i;

	warp_bar();
	for (i = tid() & 31; i < a->used; i += 32)
		r->weight[i] = dev_exp(r->weight[i] - first);
	for (i = tid() & 31; i < a->n_expert && a->share_of_all; i += 32)
		each[i] = dev_exp(r->logit[i] - first);
	warp_bar();
	for (i = 0; i < a->used && !a->share_of_all; i++)
		sum = sum + r->weight[i];
	for (i = 0; i < a->n_expert && a->share_of_all; i++)
		sum = sum + each[i];
	return sum;
}

/*
 * Chooses the experts of row t, by a warp.  `at' has ROUTE_NUMBERS, of which the
 * first are the chosen ones.
 */
DEV void
route_row(const struct dev_route *a, SHARED u32 *at, u32 t)
{
	struct row row = { .logit = a->logit + (u64)t * a->logit_stride,
	    .chosen = at, .best = at + a->used + 1,
	    .weight = (SHARED f32 *)(at + 2 * a->used + 1),
	    .key = at + 3 * a->used + 1 };
	const struct row *r = &row;
	GLOBAL f32 *share = a->share + (u64)t * a->share_stride;
	GLOBAL u32 *chosen = a->chosen + (u64)t * a->chosen_stride;
	u32 i, j, n, lane = tid() & 31;
	f32 sum = 0.0f, x, nan = bits_f32(0x7fc00000);
	int is_good = a->n_expert <= 32 * KEYS ? choose_few(a, r) :
	    choose_any(a, r);

	warp_bar();
	if (is_good)
		sum = weigh(a, r);
	for (i = lane; i < a->used; i += 32) {
		if (!is_good) {		/* any ones: all make NaN */
			share[i] = nan;
			r->chosen[i] = chosen[i] = i;
			continue;
		}
		for (j = 0, n = 0; j < a->used; j++)
			n += r->best[j] < r->best[i];
		share[n] = r->weight[i] / sum * a->scale;
		r->chosen[n] = chosen[n] = r->best[i];
	}
	if (lane == 0 && a->each > a->used)
		r->chosen[a->used] = chosen[a->used] = a->n_expert;
	if (lane == 0 && a->has_shared) {
		x = r->logit[a->n_expert];
		share[a->used] = is_finite(x) ? dev_sigmoid(x) : nan;
	}
}

/* Sorts the pairs of one row, whose experts are sorted; by a warp. */
DEV void
list_pairs(const struct dev_route *a, const SHARED u32 *chosen)
{
	u32 n_expert = a->n_expert + a->each - a->used, e, i, n;

	warp_bar();
	for (i = tid(); i < a->each; i += 32)
		a->at[i] = i;
	for (e = tid(); e <= n_expert; e += 32) {
		for (i = 0, n = 0; i < a->each; i++)
			n += chosen[i] < e;
		a->first[e] = n;
	}
}

#endif
