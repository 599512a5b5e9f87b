/* SPDX-License-Identifier: ISC */
/*
 * keep.c - keeps the candidates with the highest scores, up to a total weight.
 *
 * It finds only the score of the last candidate to keep, the edge; nothing is
 * sorted.  It sums weights in bins by the bits of the scores, and looks closer
 * only at candidates near the edge.
 */
#include <float.h>

#include "base/half.h"
#include "engine/sample/sample.h"

#define BINS QWEN_SIFT_BINS

/*
 * The edge: candidates with a higher score stay, and of the `equal' candidates
 * with this score the first `ties'.
 */
struct edge {
	float	score;
	size_t	equal, ties;
};

/* Maps floats to unsigned integers in the same order; both zeros are equal. */
static uint32_t
key(float f)
{
	uint32_t u = qwen_f32_bits(f + 0.0f);

	return u ^ ((uint32_t)-(int32_t)(u >> 31) | 0x80000000);
}

static float
unkey(uint32_t k)
{
	return qwen_bits_f32(k & 0x80000000 ? k ^ 0x80000000 : ~k);
}

/*
 * Sorts the picks into 2^11 bins by the key bits at shift, and finds the bin in
 * which the weights, summed from the highest score down, reach the target.
 * Moves the picks of this bin to the front and sets *n to their number.  Adds
 * the weight of higher bins to *above.  Returns the key bits.
 */
static uint32_t
select_bin(struct qwen_pick *pick, size_t *n, int shift, double target,
    double *above)
{
	/*
	 * two sums per bin: neighbours are often in one bin, and each addition
	 * would wait for the one before
	 */
	double bin[2048][2] = { { 0 } }, sum = *above;
	unsigned char used[2048] = { 0 };
	size_t i, m = 0;
	int b, last = 0;

	for (i = 0; i < *n; i++) {
		uint32_t k = (pick[i].key >> shift) & 2047;

		bin[k][i & 1] += (double)pick[i].weight;
		used[k] = 1;
	}
	for (b = 2047; b >= 0; b--) {
		if (!used[b])
			continue;
		last = b;
		*above = sum;
		sum += bin[b][0] + bin[b][1];
		if (sum >= target)
			break;
	}
	for (i = 0; i < *n; i++) {
		if (((pick[i].key >> shift) & 2047) == (uint32_t)last)
			pick[m++] = pick[i];
	}
	*n = m;
	return (uint32_t)last << shift;
}

static int
are_alike(const struct qwen_pick *pick, size_t n)
{
	size_t i;

	for (i = 1; i < n && pick[i].key == pick[0].key; i++)
		;
	return i == n;
}

/*
 * Finds the edge among n picks, given the total weight of all better
 * candidates.
 */
static struct edge
find_edge(struct qwen_pick *pick, size_t n, double target, double above)
{
	struct edge e;
	uint32_t k = pick[0].key;
	int shift;

	/* 32 key bits from the top: 10, 11 and 11 */
	if (!are_alike(pick, n)) {
		for (k = 0, shift = 22; shift >= 0; shift -= 11)
			k |= select_bin(pick, &n, shift, target, &above);
	}
	e.score = unkey(k);
	e.equal = n;
	for (e.ties = 1; e.ties < n; e.ties++) {
		if ((above += (double)pick[e.ties - 1].weight) >= target)
			break;
	}
	return e;
}

/*
 * Makes picks of the candidates whose bit is set; returns their number, and
 * their weight in *sum.
 */
static size_t
make_picks(struct qwen_cands *l, const float *score, const float *weight,
    double *sum)
{
	size_t i, at, m = 0;
	uint64_t w;

	*sum = 0;
	for (i = 0; i < l->n; i += 64) {
		for (w = l->bits[i / 64]; w != 0; w &= w - 1) {
			at = i + (size_t)__builtin_ctzll(w);
			l->pick[m].key = key(score[at]);
			l->pick[m].weight = weight != NULL ? weight[at] : 1;
			*sum += (double)l->pick[m++].weight;
		}
	}
	return m;
}

/* Returns the m-th highest of the spans' maxima. */
static float
edge_of_spans(struct qwen_cands *l, size_t n_spans, size_t m)
{
	size_t i;

	for (i = 0; i < n_spans; i++)
		l->pick[i] = (struct qwen_pick){ key(l->span[i]), 1 };
	return find_edge(l->pick, n_spans, (double)m, 0).score;
}

/*
 * Finds the edge if it is near the top.  At least m scores are as high as the
 * m-th highest span maximum, and usually not many more.  If their weights reach
 * the target, as is usual unless the model is very unsure, all other scores can
 * be ignored.  Returns 1 if it found the edge.
 */
static int
find_edge_near_top(struct qwen_cands *l, const float *score,
    const float *weight, double target, struct edge *e)
{
	size_t n_spans = (l->n + QWEN_SIFT_SPAN - 1) / QWEN_SIFT_SPAN, m = 128;
	double sum;

	if (weight == NULL)
		m = target <= (double)n_spans ? (size_t)target : 0;
	/* no weight exceeds 1 */
	if (m == 0 || m > n_spans || target > (double)n_spans)
		return 0;
	l->sift->spans(l->span, score, l->n);
	l->sift->at_least(l->bits, score, l->n, edge_of_spans(l, n_spans, m));
	m = make_picks(l, score, weight, &sum);
	/* slightly more, since the order of summation differs */
	if (weight != NULL && sum < target * (1 + 1e-9))
		return 0;
	*e = find_edge(l->pick, m, target, 0);
	return 1;
}

/* -------------------------------------------------- among all candidates */

/*
 * Returns the first bin's key, so that the bins reach to the farthest score, or
 * to where weights are 0.
 */
static uint32_t
first_bin(float range)
{
	uint32_t last = qwen_f32_bits(range < 128 ? range : 128) >> 17;

	return last > BINS - 1 ? last - (BINS - 1) : 0;
}

/*
 * Returns the bin in which the sum reaches the target; *above is the weight of
 * the bins before.
 */
static uint32_t
edge_bin(const struct qwen_cands *l, const float *weight, double target,
    double *above)
{
	/*
	 * four sums per bin: neighbours are often in one bin, and each addition
	 * would wait for the one before
	 */
	double sums[BINS][4] = { { 0 } }, sum = 0, s;
	uint32_t i, last = 0;
	size_t k;

	for (k = 0; k < l->n; k++)
		sums[l->bin[k]][k % 4] += weight != NULL ? (double)weight[k] : 1;
	for (i = 0; i < BINS; i++) {
		s = (sums[i][0] + sums[i][1]) + (sums[i][2] + sums[i][3]);
		if (s == 0)
			continue;
		last = i;
		*above = sum;
		sum += s;
		if (sum >= target)
			break;
	}
	return last;
}

/* Returns the lowest score in this bin, by bisection over the keys. */
static float
end_of_bin(float max, uint32_t base, uint32_t bin)
{
	uint32_t lo = key(-FLT_MAX), hi = key(max), mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (qwen_sift_bin(max - unkey(mid), base) <= bin)
			hi = mid;
		else
			lo = mid + 1;
	}
	return unkey(lo);
}

/* Sets the bits of the candidates in one bin. */
static void
mark_bin(struct qwen_cands *l, const float *score, float max, uint32_t base,
    uint32_t bin)
{
	size_t i;

	l->sift->at_least(l->bits, score, l->n, end_of_bin(max, base, bin));
	if (bin == 0)
		return;
	l->sift->at_least(l->more, score, l->n, end_of_bin(max, base, bin - 1));
	for (i = 0; i < (l->n + 63) / 64; i++)
		l->bits[i] &= ~l->more[i];
}

/*
 * Finds the edge anywhere: sorts scores into bins by their distance from the
 * highest; only the scores of one bin have to be compared.
 */
static struct edge
find_edge_anywhere(struct qwen_cands *l, const float *score,
    const float *weight, double target)
{
	float max, range;
	double above = 0, sum;
	uint32_t base, bin;
	size_t n;

	range = l->sift->range(score, l->n, &max);
	base = first_bin(range);
	l->sift->bins(l->bin, score, l->n, max, base);
	bin = edge_bin(l, weight, target, &above);
	mark_bin(l, score, max, base, bin);
	n = make_picks(l, score, weight, &sum);
	return find_edge(l->pick, n, target, above);
}

/* Clears the bits of candidates equal to the edge, except the first e->ties. */
static void
drop_ties(struct qwen_cands *l, const float *score, const struct edge *e)
{
	size_t i, here, left = e->ties;

	l->sift->at_least(l->more, score, l->n, unkey(key(e->score) + 1));
	for (i = 0; i < (l->n + 63) / 64; i++) {
		uint64_t equal = l->bits[i] & ~l->more[i];

		here = (size_t)__builtin_popcountll(equal);
		if (here <= left) {
			left -= here;
			continue;
		}
		for (; left > 0; left--)
			equal &= equal - 1;
		l->bits[i] &= ~equal;
	}
}

void
qwen_cands_keep(struct qwen_cands *l, const float *score, const float *weight,
    double target)
{
	int has_max = l->has_max && score == l->logit;
	struct edge e;
	size_t m;

	if (!find_edge_near_top(l, score, weight, target, &e))
		e = find_edge_anywhere(l, score, weight, target);
	m = l->sift->at_least(l->bits, score, l->n, e.score);
	if (m == l->n && e.ties == e.equal)
		return;
	if (e.ties < e.equal)
		drop_ties(l, score, &e);
	qwen_cands_keep_bits(l);
	l->has_max = has_max;
}
