/* SPDX-License-Identifier: ISC */
/* cands.c - the list of candidates: filling, weighing, keeping the best. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "kernel/logprob.h"
#include "sample/sample.h"

#define LANES 16	/* a fixed trip count, so that the loop is vectorised */
#define BLOCK QWEN_SAMPLE_BLOCK
#define SPAN 64		/* scores that have a highest one */

/* What qwen_cands_keep knows of a candidate. */
struct qwen_pick {
	uint32_t key;
	float	 weight;
};

int
qwen_cands_init(struct qwen_cands *l, size_t cap, struct qwen_err *err)
{
	size_t padded, i;

	memset(l, 0, sizeof *l);
	if (qwen_add(cap, BLOCK - 1, &padded) < 0)
		return qwen_fail(err, QWEN_ENOMEM, "%zu candidates", cap);
	padded -= padded % BLOCK;
	l->logit = qwen_alloc(padded, sizeof *l->logit);
	l->id = qwen_alloc(padded, sizeof *l->id);
	l->weight = qwen_alloc(padded, sizeof *l->weight);
	l->score = qwen_alloc(padded, sizeof *l->score);
	l->at = qwen_alloc(padded, sizeof *l->at);
	l->pick = qwen_alloc(padded, sizeof *l->pick);
	l->block = qwen_alloc(padded / BLOCK, sizeof *l->block);
	l->best = qwen_alloc(padded / SPAN, sizeof *l->best);
	l->cap = padded;
	if (l->logit == NULL || l->id == NULL || l->weight == NULL ||
	    l->score == NULL || l->at == NULL || l->pick == NULL ||
	    l->block == NULL || l->best == NULL) {
		qwen_cands_fini(l);
		return qwen_fail(err, QWEN_ENOMEM, "%zu candidates", cap);
	}
	for (i = 0; i < padded; i++)
		l->id[i] = (int32_t)i;
	return 0;
}

void
qwen_cands_fini(struct qwen_cands *l)
{
	free(l->logit);
	free(l->id);
	free(l->weight);
	free(l->score);
	free(l->at);
	free(l->pick);
	free(l->block);
	free(l->best);
	memset(l, 0, sizeof *l);
}

/* ------------------------------------------------------------ filling it */

struct entry {
	int32_t	id;
	float	logit;
};

static int
compare_id(const void *a, const void *b)
{
	int32_t x = ((const struct entry *)a)->id;
	int32_t y = ((const struct entry *)b)->id;

	return (x > y) - (x < y);
}

static int
sort_by_id(struct qwen_cands *l, size_t n, struct qwen_err *err)
{
	struct entry *e = qwen_alloc(n, sizeof *e);
	size_t i;

	if (e == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "a row of %zu logits", n);
	for (i = 0; i < n; i++)
		e[i] = (struct entry){ l->id[i], l->logit[i] };
	qsort(e, n, sizeof *e, compare_id);
	for (i = 0; i < n; i++) {
		l->id[i] = e[i].id;
		l->logit[i] = e[i].logit;
	}
	free(e);
	return 0;
}

/* Take the ids of a row of chosen tokens, check them, bring them in order. */
static int
fill_ids(struct qwen_cands *l, const int32_t *ids, size_t n, size_t n_vocab,
    struct qwen_err *err)
{
	size_t i;
	int sorted = 1;

	if (l->touched < n)
		l->touched = n;
	for (i = 0; i < n; i++) {
		if (ids[i] < 0 || (size_t)ids[i] >= n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld is outside the vocabulary of %zu",
			    (long)ids[i], n_vocab);
		l->id[i] = ids[i];
		sorted &= i == 0 || ids[i - 1] < ids[i];
	}
	if (!sorted && sort_by_id(l, n, err) < 0)
		return -1;
	for (i = 1; i < n; i++) {
		if (l->id[i - 1] == l->id[i])
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld has two logits", (long)l->id[i]);
	}
	return 0;
}

/* Copy, and say whether all are finite. */
static int
copy_finite(float *to, const float *from, size_t n)
{
	uint32_t bad[LANES] = { 0 };
	size_t i, j;

	for (i = 0; i + LANES <= n; i += LANES) {
		for (j = 0; j < LANES; j++) {
			uint32_t u = qwen_f32_bits(from[i + j]) & 0x7f800000;

			bad[j] |= (uint32_t)-(int32_t)(u == 0x7f800000);
		}
		memcpy(to + i, from + i, LANES * sizeof *to);
	}
	for (; i < n; i++) {
		bad[0] |= !isfinite(from[i]);
		to[i] = from[i];
	}
	for (j = 1; j < LANES; j++)
		bad[0] |= bad[j];
	return bad[0] == 0;
}

static int
not_finite(const float *logits, const int32_t *ids, struct qwen_err *err)
{
	size_t i;

	for (i = 0; isfinite(logits[i]); i++)
		;
	return qwen_fail(err, QWEN_ENUMERIC, "the logit of token %ld is %s",
	    ids != NULL ? (long)ids[i] : (long)i,
	    isnan(logits[i]) ? "not a number" : "infinite");
}

int
qwen_cands_fill(struct qwen_cands *l, const float *logits, const int32_t *ids,
    size_t n, size_t n_vocab, struct qwen_err *err)
{
	size_t i;

	if (n == 0 || n > l->cap || n > n_vocab)
		return qwen_fail(err, QWEN_ERANGE,
		    "a row of %zu logits for a vocabulary of %zu", n, n_vocab);
	if (!copy_finite(l->logit, logits, n))
		return not_finite(logits, ids, err);
	l->n = n;
	if (ids != NULL)
		return fill_ids(l, ids, n, n_vocab, err);
	for (i = 0; i < l->touched; i++)
		l->id[i] = (int32_t)i;
	l->touched = 0;
	return 0;
}

/* --------------------------------------------------- the best, and cutting */

/* The highest of x and of the lanes of m, exactly the first of equals. */
static float
highest(const float *x, size_t n, uint32_t *bad)
{
	float m[LANES];
	uint32_t b[LANES] = { 0 };
	size_t i, j;

	for (j = 0; j < LANES; j++)
		m[j] = x[0];
	for (i = 0; i + LANES <= n; i += LANES) {
		for (j = 0; j < LANES; j++) {
			float v = x[i + j];
			uint32_t u = qwen_f32_bits(v) & 0x7f800000;

			m[j] = v > m[j] ? v : m[j];
			b[j] |= (uint32_t)-(int32_t)(u == 0x7f800000);
		}
	}
	for (; i < n; i++) {
		m[0] = x[i] > m[0] ? x[i] : m[0];
		b[0] |= !isfinite(x[i]);
	}
	for (j = 1; j < LANES; j++) {
		m[0] = m[j] > m[0] ? m[j] : m[0];
		b[0] |= b[j];
	}
	*bad |= b[0];
	return m[0];
}

size_t
qwen_sample_best(const float *x, size_t n, int *finite)
{
	const size_t part = 4096;
	size_t i, from = 0;
	uint32_t bad = 0;
	float max = x[0], m;

	for (i = 0; i < n; i += part) {
		m = highest(x + i, n - i < part ? n - i : part, &bad);
		if (m > max) {
			max = m;
			from = i;
		}
	}
	*finite = bad == 0;
	for (i = from; i < n && !(x[i] == max); i++)
		;
	return i < n ? i : 0;
}

size_t
qwen_cands_best(const struct qwen_cands *l)
{
	int finite;

	return qwen_sample_best(l->logit, l->n, &finite);
}

void
qwen_cands_temper(struct qwen_cands *l, float temp)
{
	float max = l->logit[qwen_cands_best(l)];
	size_t i, j;

	/*
	 * Relative to the best one, so that no quotient is too large; behind
	 * the last one there is room, and nothing that matters.
	 */
	for (i = 0; i < l->n; i += LANES) {
		for (j = 0; j < LANES; j++)
			l->logit[i + j] = (l->logit[i + j] - max) / temp;
	}
}

size_t
qwen_cands_find(const struct qwen_cands *l, int32_t id)
{
	size_t lo = 0, hi = l->n, mid;

	if (id >= 0 && (size_t)id < l->n && l->id[id] == id)
		return (size_t)id;
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (l->id[mid] < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < l->n && l->id[lo] == id ? lo : l->n;
}

void
qwen_cands_shrink(struct qwen_cands *l, size_t m)
{
	if (m < l->n && l->touched < m)
		l->touched = m;
	l->n = m;
}

void
qwen_cands_only(struct qwen_cands *l, size_t i)
{
	l->logit[0] = l->logit[i];
	l->id[0] = l->id[i];
	if (l->touched == 0)
		l->touched = 1;
	l->n = 1;
}

/* Move from .. to - 1 to m; returns where they end. */
static size_t
move(struct qwen_cands *l, size_t m, size_t from, size_t to)
{
	if (m != from && to > from) {
		memmove(l->logit + m, l->logit + from,
		    (to - from) * sizeof *l->logit);
		memmove(l->id + m, l->id + from, (to - from) * sizeof *l->id);
	}
	return m + (to - from);
}

void
qwen_cands_drop(struct qwen_cands *l, const int32_t *ids, size_t n)
{
	size_t i, at, from = 0, m = 0;

	for (i = 0; i < n; i++) {
		if ((at = qwen_cands_find(l, ids[i])) == l->n || at < from)
			continue;
		/* what find looks at is behind what was moved */
		m = move(l, m, from, at);
		from = at + 1;
	}
	m = move(l, m, from, l->n);
	qwen_cands_shrink(l, m);
}

/*
 * Indices of the scores that are not below the limit, in at; how many.  Few
 * are expected, so a span without one costs its comparison alone.
 */
static size_t
collect(struct qwen_cands *l, const float *score, float limit)
{
	size_t i, j, end, m = 0;

	for (i = 0; i < l->n; i += SPAN) {
		if (l->best[i / SPAN] < limit)
			continue;
		end = l->n - i < SPAN ? l->n : i + SPAN;
		for (j = i; j < end; j++) {
			l->at[m] = (uint32_t)j;
			m += score[j] >= limit;
		}
	}
	return m;
}

/* The highest score of each span. */
static size_t
span(struct qwen_cands *l, const float *score)
{
	size_t i, j, k, n = 0;
	float m[LANES];

	for (i = 0; i + SPAN <= l->n; i += SPAN) {
		memcpy(m, score + i, sizeof m);
		for (k = LANES; k < SPAN; k += LANES) {
			for (j = 0; j < LANES; j++) {
				float v = score[i + k + j];

				m[j] = v > m[j] ? v : m[j];
			}
		}
		for (k = LANES / 2; k > 0; k /= 2) {
			for (j = 0; j < k; j++)
				m[j] = m[j + k] > m[j] ? m[j + k] : m[j];
		}
		l->best[n++] = m[0];
	}
	if (i < l->n) {
		for (m[0] = score[i]; i < l->n; i++)
			m[0] = score[i] > m[0] ? score[i] : m[0];
		l->best[n++] = m[0];
	}
	return n;
}

/* Only those at the first m indices stay. */
static void
take(struct qwen_cands *l, size_t m)
{
	size_t i;

	for (i = 0; i < m; i++) {
		l->logit[i] = l->logit[l->at[i]];
		l->id[i] = l->id[l->at[i]];
	}
	qwen_cands_shrink(l, m);
}

void
qwen_cands_cut(struct qwen_cands *l, float limit)
{
	span(l, l->logit);
	take(l, collect(l, l->logit, limit));
}

/* -------------------------------------------------- weighing and drawing */

/*
 * exp(-a) for a >= 0 to about 2 ulp; 0 for a > 87.  -a = n ln 2 + r, a
 * polynomial of degree 6 for exp(r) on |r| <= ln 2 / 2 (Taylor's coefficients
 * do: the seventh term is below 2^-27), times 2^n by its exponent bits.  Not
 * qwen_expf: that needs fma, which baseline x86 has to call.  Here every
 * product and sum is rounded on its own, and comparing as integers lets
 * the compiler take several at once.
 */
static float
exp_minus(float a)
{
	const float magic = 0x1.8p23f;	/* adding it rounds to an integer */
	uint32_t limit = 0x42ae0000, bits = qwen_f32_bits(a);	/* 87 */
	uint32_t far = -(uint32_t)((int32_t)bits > (int32_t)limit);
	float x = -qwen_bits_f32(bits ^ ((bits ^ limit) & far));
	float t = x * 0x1.715476p0f + magic;
	float n = t - magic;
	/* ln 2 in two parts; n times the first one is exact */
	float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
	float p = 0x1.6c16c2p-10f;	/* 1/720 */

	p = p * r + 0x1.111112p-7f;	/* 1/120 */
	p = p * r + 0x1.555556p-5f;	/* 1/24 */
	p = p * r + 0x1.555556p-3f;	/* 1/6 */
	p = p * r + 0.5f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	return qwen_bits_f32((qwen_f32_bits(p) + (qwen_f32_bits(t) << 23)) &
	    ~far);
}

/* Of one block, in the order that sample.h lays down. */
static double
sum_block(const float *w)
{
	double s[8] = { 0 };
	size_t i;

	/* written out, so that they stay in registers */
	for (i = 0; i < BLOCK; i += 8) {
		s[0] += (double)w[i];
		s[1] += (double)w[i + 1];
		s[2] += (double)w[i + 2];
		s[3] += (double)w[i + 3];
		s[4] += (double)w[i + 4];
		s[5] += (double)w[i + 5];
		s[6] += (double)w[i + 6];
		s[7] += (double)w[i + 7];
	}
	return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

double
qwen_cands_weigh(struct qwen_cands *l)
{
	float max = l->logit[qwen_cands_best(l)];
	double sum = 0;
	size_t i, j, k;

	for (i = 0; i < l->n; i += BLOCK) {
		float *restrict w = l->weight + i;
		const float *restrict x = l->logit + i;

		for (k = 0; k < BLOCK; k += LANES) {
			for (j = 0; j < LANES; j++)
				w[k + j] = max - x[k + j];
			for (j = 0; j < LANES; j++)
				w[k + j] = exp_minus(w[k + j]);
		}
		/* behind the last one lies what nobody asked for */
		for (k = l->n - i; k < BLOCK; k++)
			w[k] = 0;
		sum += l->block[i / BLOCK] = sum_block(w);
	}
	return sum;
}

double
qwen_cands_mean(const struct qwen_cands *l, double total)
{
	double max = (double)l->logit[qwen_cands_best(l)], s[4] = { 0 };
	const float *w = l->weight, *x = l->logit;
	size_t i;

	for (i = 0; i + 4 <= l->n; i += 4) {
		s[0] += (double)w[i] * (max - (double)x[i]);
		s[1] += (double)w[i + 1] * (max - (double)x[i + 1]);
		s[2] += (double)w[i + 2] * (max - (double)x[i + 2]);
		s[3] += (double)w[i + 3] * (max - (double)x[i + 3]);
	}
	for (; i < l->n; i++)
		s[0] += (double)w[i] * (max - (double)x[i]);
	return ((s[0] + s[1]) + (s[2] + s[3])) / total;
}

size_t
qwen_cands_draw(struct qwen_cands *l, double u)
{
	double target = u * qwen_cands_weigh(l), sum = 0;
	size_t i, end;

	/* whole blocks first */
	for (i = 0; i + BLOCK < l->n; i += BLOCK) {
		if (sum + l->block[i / BLOCK] > target)
			break;
		sum += l->block[i / BLOCK];
	}
	end = i + BLOCK < l->n ? i + BLOCK : l->n;
	while (i < end && (sum += l->weight[i]) <= target)
		i++;
	if (i == end)	/* by rounding: the last one that can be chosen */
		i--;
	while (i > 0 && l->weight[i] == 0)
		i--;
	return i;
}

/* -------------------------------------------------------- keeping the best */

/* Unsigned integers in the order of the floats, both zeros alike. */
static uint32_t
key(float f)
{
	uint32_t u = qwen_f32_bits(f + 0.0f);

	return u ^ ((uint32_t)-(int32_t)(u >> 31) | 0x80000000);
}

/*
 * Sort the picks into 2^11 bins by the key bits at shift, and find the bin in
 * which the weights, counted from the best, reach the target.  Its picks move
 * to the front; *n becomes their number, *above the weight of the better ones.
 */
static uint32_t
narrow(struct qwen_pick *pick, size_t *n, int shift, double target,
    double *above)
{
	/* twice, for neighbours often meet in one bin and would wait */
	double bin[2048][2] = { { 0 } }, sum = *above;
	unsigned char used[2048] = { 0 };
	size_t i, m = 0;
	int b, last = 0;

	for (i = 0; i < *n; i++) {
		uint32_t k = (pick[i].key >> shift) & 2047;

		bin[k][i & 1] += pick[i].weight;
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

/* The m-th highest of the spans' best. */
static float
edge_of_spans(struct qwen_cands *l, size_t n_spans, size_t m)
{
	uint32_t edge = 0;
	double above = 0;
	size_t i, n = n_spans;
	int shift;

	for (i = 0; i < n; i++)
		l->pick[i] = (struct qwen_pick){ key(l->best[i]), 1 };
	for (shift = 22; shift >= 0; shift -= 11)
		edge |= narrow(l->pick, &n, shift, (double)m, &above);
	/* from the key back to the float */
	return qwen_bits_f32(edge & 0x80000000 ? edge ^ 0x80000000 : ~edge);
}

/* Make the first m indices picks; returns their weight. */
static double
make_picks(struct qwen_cands *l, const float *score, const float *weight,
    size_t m)
{
	double sum = 0;
	size_t i;

	for (i = 0; i < m; i++) {
		l->pick[i].key = key(score[l->at[i]]);
		l->pick[i].weight = weight != NULL ? weight[l->at[i]] : 1;
		sum += l->pick[i].weight;
	}
	return sum;
}

/*
 * Picks among which are all that will be kept: how many, or 0 if that is not
 * known.  At least m scores are as high as the m-th of the spans' best, and not
 * many more unless they are alike.  Where those suffice, as they do for a model
 * that is half sure, all others need no look.
 */
static size_t
pick_few(struct qwen_cands *l, const float *score, const float *weight,
    double target)
{
	size_t n_spans = span(l, score), m = 128;

	if (weight == NULL)
		m = target <= (double)n_spans ? (size_t)target : 0;
	if (m == 0 || m > n_spans)
		return 0;
	m = collect(l, score, edge_of_spans(l, n_spans, m));
	/* a hair more, for sums in another order */
	return make_picks(l, score, weight, m) >= target * (1 + 1e-9) ||
	    weight == NULL ? m : 0;
}

#define BINS 1024

/* Scores by their distance from the highest, in bins of equal width. */
struct bins {
	float	max, scale;
	double	sum[4][BINS];	/* of weights: of neighbours apart, for they
				   often meet in one and would wait */
};

static uint32_t
bin_of(const struct bins *b, float score)
{
	return (uint32_t)(int32_t)((b->max - score) * b->scale) & (BINS - 1);
}

/* 0 if the scores are too wide apart, or too near to each other, for that. */
static int
fill_bins(struct bins *b, const float *score, const float *weight, size_t n)
{
	float min = score[0];
	size_t i;
	int finite;

	memset(b->sum, 0, sizeof b->sum);
	b->max = score[qwen_sample_best(score, n, &finite)];
	for (i = 0; i < n; i++)
		min = score[i] < min ? score[i] : min;
	if (!(b->max - min > 1e-30f && b->max - min < 1e30f))
		return 0;
	b->scale = (BINS - 1) / (b->max - min);
	for (i = 0; i < n; i++)
		b->sum[i % 4][bin_of(b, score[i])] +=
		    weight != NULL ? (double)weight[i] : 1;
	return 1;
}

/* The bin in which the target is reached, and the weight of better ones. */
static uint32_t
edge_bin(const struct bins *b, double target, double *above)
{
	uint32_t i, last = 0;
	double sum = 0, s;

	for (i = 0; i < BINS; i++) {
		s = (b->sum[0][i] + b->sum[1][i]) + (b->sum[2][i] + b->sum[3][i]);
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

/*
 * The key of the last pick to keep, and how many equal to it stay; *sum is the
 * weight of what is better than all picks.
 */
static uint32_t
find_edge(struct qwen_cands *l, size_t n, double target, double sum,
    size_t *ties)
{
	uint32_t edge = 0;
	int shift;

	/* the keys of 32 bits from the top, 10 and 11 and 11 bits */
	for (shift = 22; shift >= 0; shift -= 11)
		edge |= narrow(l->pick, &n, shift, target, &sum);
	/* n candidates are equal to the edge: the first few of them stay */
	*ties = 1;
	while (*ties < n && (sum += l->pick[0].weight) < target)
		++*ties;
	return edge;
}

/* Go through the n indices and keep what is not behind the edge. */
static void
keep_picks(struct qwen_cands *l, const float *score, size_t n, double target)
{
	size_t i, m = 0, ties;
	uint32_t edge = find_edge(l, n, target, 0, &ties), k;

	for (i = 0; i < n; i++) {
		k = key(score[l->at[i]]);
		if (k > edge || (k == edge && ties > 0)) {
			ties -= k == edge;
			l->at[m++] = l->at[i];
		}
	}
	take(l, m);
}

/* The same, over all: only those of one bin need be told apart. */
static void
keep_bins(struct qwen_cands *l, const float *score, const float *weight,
    double target, const struct bins *b)
{
	size_t i, n = 0, m = 0, ties;
	double above = 0;
	uint32_t bin = edge_bin(b, target, &above), edge, k;

	for (i = 0; i < l->n; i++) {
		l->at[n] = (uint32_t)i;
		n += bin_of(b, score[i]) == bin;
	}
	make_picks(l, score, weight, n);
	edge = find_edge(l, n, target, above, &ties);
	for (i = 0; i < l->n; i++) {
		k = bin_of(b, score[i]);
		if (k == bin) {
			k = key(score[i]);
			if (k < edge || (k == edge && ties == 0))
				continue;
			ties -= k == edge;
		} else if (k > bin)
			continue;
		l->at[m++] = (uint32_t)i;
	}
	take(l, m);
}

void
qwen_cands_keep(struct qwen_cands *l, const float *score, const float *weight,
    double target)
{
	struct bins b;
	size_t n = pick_few(l, score, weight, target);

	if (n == 0 && l->n > BINS && fill_bins(&b, score, weight, l->n)) {
		keep_bins(l, score, weight, target, &b);
		return;
	}
	if (n == 0) {
		for (; n < l->n; n++)
			l->at[n] = (uint32_t)n;
		make_picks(l, score, weight, n);
	}
	keep_picks(l, score, n, target);
}

/* ------------------------------------------------------------ for people */

struct best {
	float	logit;
	int32_t	id;
};

static int
compare_logit(const void *a, const void *b)
{
	const struct best *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit < y->logit ? 1 : -1;
	return (x->id > y->id) - (x->id < y->id);
}

int
qwen_sample_top(const float *logits, const int32_t *ids, size_t n,
    size_t n_vocab, struct qwen_sample_top *out, size_t n_out,
    struct qwen_err *err)
{
	struct qwen_cands l;
	struct best *best = NULL;
	double sum;
	size_t i, above;
	int rc = -1;

	if (qwen_cands_init(&l, n, err) < 0)
		return -1;
	if (qwen_cands_fill(&l, logits, ids, n, n_vocab, err) < 0)
		goto out;
	sum = qwen_logprob_sum(l.logit, l.n, -1, &above);
	if (n_out < l.n)
		qwen_cands_keep(&l, l.logit, NULL,
		    n_out > 0 ? (double)n_out : 1);
	if ((best = qwen_alloc(l.n, sizeof *best)) == NULL) {
		qwen_fail(err, QWEN_ENOMEM, "the best %zu", n_out);
		goto out;
	}
	for (i = 0; i < l.n; i++)
		best[i] = (struct best){ l.logit[i], l.id[i] };
	qsort(best, l.n, sizeof *best, compare_logit);
	for (i = 0; i < l.n && i < n_out; i++) {
		out[i].id = best[i].id;
		out[i].logit = best[i].logit;
		out[i].logprob = (double)best[i].logit - sum;
	}
	rc = (int)i;
out:
	free(best);
	qwen_cands_fini(&l);
	return rc;
}
