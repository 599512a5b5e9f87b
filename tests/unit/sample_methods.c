/* SPDX-License-Identifier: ISC */
/*
 * sample_methods.c - the most common methods against plain definitions of them.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sample/sample.h"
#include "../tap.h"

extern const struct qwen_sampler_method qwen_sampler_top_k, qwen_sampler_top_p,
    qwen_sampler_min_p, qwen_sampler_greedy, qwen_sampler_temperature;

enum { MAX = 5000 };

static uint64_t rng = 1;

static uint32_t
rnd(void)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rng >> 33);
}

/* Applies a method with these values of its options. */
static void
apply(const struct qwen_sampler_method *m, union qwen_sample_value *v,
    struct qwen_cands *l)
{
	m->apply(&(struct qwen_chain_method){ .m = m, .v = v }, l);
}

static void
fill(struct qwen_cands *l, const float *logits, size_t n)
{
	struct qwen_err err;

	if (qwen_cands_fill(l, logits, NULL, n, n, &err) < 0)
		abort();
}

/* Rows with many ties, both zeros, huge and tiny values. */
static void
make_row(float *row, size_t n, int kind)
{
	size_t i;

	for (i = 0; i < n; i++) {
		uint32_t r = rnd();

		if (kind == 0)
			row[i] = (float)r / 1e8f - 10;
		else if (kind == 1)
			row[i] = (float)(r % 7) - 3;
		else if (kind == 2)
			row[i] = r % 3 ? -0.0f : 0.0f;
		else if (kind == 3)
			row[i] = (r & 1 ? 1 : -1) * ldexpf((float)r, (int)(r % 190) - 100);
		else
			row[i] = r % 50 == 0 ? (float)(r % 97) : -30;
	}
}

/* A candidate, for sorting. */
struct cand {
	float	logit;
	int32_t	id;
};

static int
better(const void *a, const void *b)
{
	const struct cand *x = a, *y = b;

	if (x->logit != y->logit)
		return x->logit > y->logit ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int
by_id(const void *a, const void *b)
{
	const struct cand *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* 1 if the list holds the n best of the row, in the order of their ids. */
static int
has_best(const struct qwen_cands *l, const float *row, size_t n_row, size_t n)
{
	static struct cand c[MAX];
	size_t i;

	for (i = 0; i < n_row; i++) {
		c[i].logit = row[i];
		c[i].id = (int32_t)i;
	}
	qsort(c, n_row, sizeof c[0], better);
	qsort(c, n, sizeof c[0], by_id);
	if (l->n != n)
		return 0;
	for (i = 0; i < n; i++) {
		if (l->id[i] != c[i].id || l->logit[i] != c[i].logit)
			return 0;
	}
	return 1;
}

static void
test_top_k(struct qwen_cands *l)
{
	static float row[MAX];
	int kind, trial, bad = 0;

	for (trial = 0; trial < 400; trial++) {
		size_t n = 1 + rnd() % (trial < 200 ? 20 : MAX);
		size_t k = 1 + rnd() % (n + 2);
		union qwen_sample_value v = { .i = (int64_t)k };

		kind = trial % 5;
		make_row(row, n, kind);
		fill(l, row, n);
		apply(&qwen_sampler_top_k, &v, l);
		bad += !has_best(l, row, n, k < n ? k : n);
	}
	ok(bad == 0, "top-k keeps the K best, ties by lowest id (%d bad)", bad);
}

/* How many of the best have share p, in long double; *margin says how sure. */
static size_t
count_top_p(const float *row, size_t n, double p, double *margin)
{
	static struct cand c[MAX];
	long double total = 0, sum = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		c[i].logit = row[i];
		c[i].id = (int32_t)i;
	}
	qsort(c, n, sizeof c[0], better);
	for (i = 0; i < n; i++)
		total += expl((long double)c[i].logit - c[0].logit);
	*margin = 1;
	for (i = 0; i < n; i++) {
		sum += expl((long double)c[i].logit - c[0].logit);
		if (fabs((double)(sum / total) - p) < *margin)
			*margin = fabs((double)(sum / total) - p);
		if (sum >= p * total)
			return i + 1;
	}
	return n;
}

static void
test_top_p(struct qwen_cands *l)
{
	static float row[MAX];
	int trial, bad = 0, close = 0;

	for (trial = 0; trial < 400; trial++) {
		size_t n = 1 + rnd() % (trial < 200 ? 20 : MAX), want;
		union qwen_sample_value v = { .d = rnd() % 1000 / 1000.0 };
		double margin;

		make_row(row, n, trial % 5);
		fill(l, row, n);
		apply(&qwen_sampler_top_p, &v, l);
		want = count_top_p(row, n, v.d, &margin);
		if (margin < 1e-5) {
			close++;
			bad += !has_best(l, row, n, l->n);
		} else
			bad += !has_best(l, row, n, want);
	}
	ok(bad == 0, "top-p keeps the fewest best with share P "
	    "(%d bad, %d too close to tell)", bad, close);
	ok(close < 200, "most rows could tell");
}

static void
test_min_p(struct qwen_cands *l)
{
	static float row[MAX];
	int trial, bad = 0;
	size_t i, k;

	for (trial = 0; trial < 200; trial++) {
		size_t n = 1 + rnd() % 3000;
		union qwen_sample_value v = { .d = rnd() % 1000 / 1000.0 };
		double max = -1e300, r;

		make_row(row, n, trial % 5);
		fill(l, row, n);
		apply(&qwen_sampler_min_p, &v, l);
		for (i = 0; i < n; i++)
			max = row[i] > max ? row[i] : max;
		for (i = k = 0; i < n; i++) {
			int kept = k < l->n && l->id[k] == (int32_t)i;

			r = exp(row[i] - max);
			k += kept;
			if (fabs(r - v.d) > 1e-6 * v.d + 1e-37)
				bad += kept != (r >= v.d);
		}
		bad += k != l->n || l->n == 0;
	}
	ok(bad == 0, "min-p keeps what has P of the best (%d bad)", bad);
}

static void
test_greedy(struct qwen_cands *l)
{
	static const float row[] = { -1, 3, 2, 3, -0.0f, 3 };
	static const float zeros[] = { -0.0f, 0.0f };
	union qwen_sample_value v = { .i = 1 }, cold = { .d = 0 };

	fill(l, row, 6);
	apply(&qwen_sampler_greedy, &v, l);
	ok(l->n == 1 && l->id[0] == 1, "greedy: lowest id among equals");
	fill(l, zeros, 2);
	apply(&qwen_sampler_greedy, &v, l);
	ok(l->id[0] == 0, "greedy: both zeros are equal");
	fill(l, row, 6);
	apply(&qwen_sampler_temperature, &cold, l);
	ok(l->n == 1 && l->id[0] == 1, "temperature 0 is greedy");
}

static void
test_weigh(struct qwen_cands *l)
{
	static float row[MAX];
	double worst = 0, d, sum;
	size_t i;
	int far = 0;

	for (i = 0; i < MAX; i++)
		row[i] = (float)i * -0.0174f;	/* down to -87 */
	fill(l, row, MAX);
	sum = qwen_cands_weigh(l);
	for (i = 0; i < MAX; i++) {
		d = exp((double)row[i]);
		d = fabs(l->weight[i] - d) / d;
		worst = d > worst ? d : worst;
	}
	ok(worst < 2.5e-7, "exp of weights within %.2g", worst);
	for (d = 0, i = 0; i < MAX; i++)
		d += l->weight[i];
	ok(fabs(sum - d) < 1e-12 * d, "the sum is the sum");
	row[0] = 0;
	for (i = 1; i < MAX; i++)
		row[i] = -88 - ldexpf(1, (int)(i % 120));
	fill(l, row, MAX);
	sum = qwen_cands_weigh(l);
	for (i = 1; i < MAX; i++)
		far += l->weight[i] != 0;
	ok(sum == 1 && far == 0, "weights too small to matter are 0");
	row[0] = FLT_MAX;
	row[1] = -FLT_MAX;
	fill(l, row, 2);
	ok(qwen_cands_weigh(l) == 1, "the widest row does not overflow");
}

/* Replays the definition in the plainest way. */
static void
test_draw(struct qwen_cands *l)
{
	static float row[MAX];
	int trial, bad = 0;

	for (trial = 0; trial < 2000; trial++) {
		size_t n = 1 + rnd() % (trial % 2 ? 10 : MAX), i;
		double u = rnd() / 2147483648.0, sum = 0, total, slack;

		make_row(row, n, trial % 5);
		fill(l, row, n);
		i = qwen_cands_draw(l, u);
		total = qwen_cands_weigh(l);
		slack = 1e-12 * total;
		for (size_t k = 0; k < i; k++)
			sum += l->weight[k];
		bad += l->weight[i] <= 0 || sum > u * total + slack ||
		    sum + l->weight[i] < u * total - slack;
	}
	ok(bad == 0, "draw inverts the cumulative sum (%d bad)", bad);
	row[0] = -1000;
	row[1] = 0;
	row[2] = -1000;
	fill(l, row, 3);
	ok(qwen_cands_draw(l, 0) == 1 &&
	    qwen_cands_draw(l, 1 - 0x1p-53) == 1,
	    "what has no weight is never drawn");
}

int
main(void)
{
	struct qwen_cands l;

	if (qwen_cands_init(&l, MAX, NULL) < 0)
		return 1;
	test_top_k(&l);
	test_top_p(&l);
	test_min_p(&l);
	test_greedy(&l);
	test_weigh(&l);
	test_draw(&l);
	qwen_cands_fini(&l);
	return done_testing();
}
