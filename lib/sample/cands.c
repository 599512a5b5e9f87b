/* SPDX-License-Identifier: ISC */
/* cands.c - the list of candidates: filling, weighing, keeping the best. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "sample/sample.h"

#define LANES 16	/* a fixed trip count, so that the loop is vectorised */
#define BLOCK 256	/* weights that draw steps over at once */

int
qwen_cands_init(struct qwen_cands *l, size_t cap, struct qwen_err *err)
{
	size_t padded;

	memset(l, 0, sizeof *l);
	if (qwen_add(cap, LANES - 1, &padded) < 0)
		return qwen_fail(err, QWEN_ENOMEM, "%zu candidates", cap);
	padded -= padded % LANES;
	l->c = qwen_alloc(padded, sizeof *l->c);
	l->weight = qwen_alloc(padded, sizeof *l->weight);
	l->pick = qwen_alloc(padded, sizeof *l->pick);
	l->cap = cap;
	if (l->c == NULL || l->weight == NULL || l->pick == NULL) {
		qwen_cands_fini(l);
		return qwen_fail(err, QWEN_ENOMEM, "%zu candidates", cap);
	}
	return 0;
}

void
qwen_cands_fini(struct qwen_cands *l)
{
	free(l->c);
	free(l->weight);
	free(l->pick);
	memset(l, 0, sizeof *l);
}

static int
compare_id(const void *a, const void *b)
{
	int32_t x = ((const struct qwen_cand *)a)->id;
	int32_t y = ((const struct qwen_cand *)b)->id;

	return (x > y) - (x < y);
}

/* Copy a row of chosen tokens, check the ids and bring them into order. */
static int
fill_some(struct qwen_cands *l, const float *logits, const int32_t *ids,
    size_t n, size_t n_vocab, struct qwen_err *err)
{
	size_t i;
	int sorted = 1;

	for (i = 0; i < n; i++) {
		if (ids[i] < 0 || (size_t)ids[i] >= n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld is outside the vocabulary of %zu",
			    (long)ids[i], n_vocab);
		l->c[i].logit = logits[i];
		l->c[i].id = ids[i];
		sorted &= i == 0 || ids[i - 1] < ids[i];
	}
	if (!sorted)
		qsort(l->c, n, sizeof *l->c, compare_id);
	for (i = 1; i < n; i++) {
		if (l->c[i - 1].id == l->c[i].id)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld has two logits", (long)l->c[i].id);
	}
	return 0;
}

int
qwen_cands_fill(struct qwen_cands *l, const float *logits, const int32_t *ids,
    size_t n, size_t n_vocab, struct qwen_err *err)
{
	size_t i, bad = 0;

	if (n == 0 || n > l->cap || n > n_vocab)
		return qwen_fail(err, QWEN_ERANGE,
		    "a row of %zu logits for a vocabulary of %zu", n, n_vocab);
	for (i = 0; i < n; i++)
		bad += (qwen_f32_bits(logits[i]) & 0x7f800000) == 0x7f800000;
	if (bad != 0) {
		for (i = 0; isfinite(logits[i]); i++)
			;
		return qwen_fail(err, QWEN_ENUMERIC,
		    "the logit of token %ld is %s",
		    ids != NULL ? (long)ids[i] : (long)i,
		    isnan(logits[i]) ? "not a number" : "infinite");
	}
	l->n = n;
	if (ids != NULL)
		return fill_some(l, logits, ids, n, n_vocab, err);
	for (i = 0; i < n; i++) {
		l->c[i].logit = logits[i];
		l->c[i].id = (int32_t)i;
	}
	return 0;
}

size_t
qwen_cands_best(const struct qwen_cands *l)
{
	size_t i, best = 0;

	for (i = 1; i < l->n; i++) {
		if (l->c[i].logit > l->c[best].logit)
			best = i;
	}
	return best;
}

void
qwen_cands_only(struct qwen_cands *l, size_t i)
{
	l->c[0] = l->c[i];
	l->n = 1;
}

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

double
qwen_cands_weigh(struct qwen_cands *l)
{
	float max = l->c[qwen_cands_best(l)].logit;
	size_t i, j;

	for (i = 0; i < l->n; i += LANES) {
		float *w = l->weight + i;

		for (j = 0; j < LANES; j++)
			w[j] = max - l->c[i + j].logit;
		for (j = 0; j < LANES; j++)
			w[j] = exp_minus(w[j]);
	}
	/* behind the last one lies what nobody asked for */
	for (i = l->n; i % LANES != 0; i++)
		l->weight[i] = 0;
	return qwen_cands_sum(l, 0, l->n);
}

/*
 * The order of the additions is part of the result: four sums by index mod 4,
 * then (0 + 1) + (2 + 3); one sum alone would wait for each addition.
 */
double
qwen_cands_sum(const struct qwen_cands *l, size_t from, size_t to)
{
	const float *w = l->weight;
	double s[4] = { 0 };
	size_t i;

	for (i = from; i < to; i += 4) {
		s[0] += w[i];
		s[1] += w[i + 1];
		s[2] += w[i + 2];
		s[3] += w[i + 3];
	}
	return (s[0] + s[1]) + (s[2] + s[3]);
}

size_t
qwen_cands_draw(struct qwen_cands *l, double u)
{
	double target = u * qwen_cands_weigh(l), sum = 0, part;
	size_t i, end;

	/* whole blocks first */
	for (i = 0; i + BLOCK < l->n; i += BLOCK) {
		part = qwen_cands_sum(l, i, i + BLOCK);
		if (sum + part > target)
			break;
		sum += part;
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

void
qwen_cands_keep(struct qwen_cands *l, const float *weight, double target)
{
	uint32_t k, edge = 0;
	double sum = 0;
	size_t i, n = l->n, m = 0, ties = 1;
	int shift;

	for (i = 0; i < n; i++) {
		l->pick[i].key = key(l->c[i].logit);
		l->pick[i].weight = weight != NULL ? weight[i] : 1.0f;
	}
	/* the keys of 32 bits from the top, 10 and 11 and 11 bits */
	for (shift = 22; shift >= 0; shift -= 11)
		edge |= narrow(l->pick, &n, shift, target, &sum);
	/* n candidates are equal to the edge: the first few of them stay */
	while (ties < n && (sum += l->pick[0].weight) < target)
		ties++;
	for (i = 0; i < l->n; i++) {
		k = key(l->c[i].logit);
		if (k > edge || (k == edge && ties > 0)) {
			ties -= k == edge;
			l->c[m++] = l->c[i];
		}
	}
	l->n = m;
}

static int
compare_logit(const void *a, const void *b)
{
	const struct qwen_cand *x = a, *y = b;

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
	double sum = 0, max;
	size_t i;
	int rc = -1;

	if (qwen_cands_init(&l, n, err) < 0)
		return -1;
	if (qwen_cands_fill(&l, logits, ids, n, n_vocab, err) < 0)
		goto out;
	max = l.c[qwen_cands_best(&l)].logit;
	for (i = 0; i < l.n; i++)
		sum += exp((double)l.c[i].logit - max);
	if (n_out < l.n)
		qwen_cands_keep(&l, NULL, n_out > 0 ? (double)n_out : 1);
	qsort(l.c, l.n, sizeof *l.c, compare_logit);
	for (i = 0; i < l.n && i < n_out; i++) {
		out[i].id = l.c[i].id;
		out[i].logit = l.c[i].logit;
		out[i].logprob = l.c[i].logit - max - log(sum);
	}
	rc = (int)i;
out:
	qwen_cands_fini(&l);
	return rc;
}
