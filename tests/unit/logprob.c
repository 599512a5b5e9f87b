/* SPDX-License-Identifier: ISC */
/*
 * logprob.c - log-probabilities against long double, and ranks against
 * counting, for rows of all lengths and logits of all sizes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quant/logprob.h"
#include "qwen.h"
#include "qwentext.h"
#include "../tap.h"

enum { MOST = 9001 };

static float row[MOST];

/* Numbers that are the same every time. */
static unsigned
draw(void)
{
	static unsigned x = 4711;

	x = x * 1103515245u + 12345u;
	return x >> 8;
}

static void
fill(size_t n, double spread)
{
	size_t i;

	for (i = 0; i < n; i++)
		row[i] = (float)(spread * ((double)(draw() % 20001) / 10000 -
		    1));
}

static double
plain(size_t n, size_t id)
{
	long double max = row[0], sum = 0;
	size_t i;

	for (i = 1; i < n; i++)
		max = row[i] > max ? row[i] : max;
	for (i = 0; i < n; i++)
		sum += expl(row[i] - max);
	return (double)(row[id] - max - logl(sum));
}

static size_t
better(size_t n, size_t id)
{
	size_t i, k = 0;

	for (i = 0; i < n; i++)
		k += row[i] > row[id] || (row[i] == row[id] && i < id);
	return k;
}

static double
logprob(const float *logits, size_t n, int32_t id, size_t *rank)
{
	return (double)logits[id] - qwen_logprob_sum(logits, n, id, rank);
}

static void
test_lengths(void)
{
	static const size_t len[] = { 1, 2, 7, 8, 9, 127, 128, 129, 1000, 4095,
	    4096, 4097, 8192, 8193, MOST };
	double worst = 0, e;
	size_t i, k, id, rank;
	int wrong = 0;

	for (i = 0; i < sizeof len / sizeof len[0]; i++) {
		fill(len[i], 12);
		for (k = 0; k < 20; k++) {
			id = draw() % len[i];
			e = fabs(logprob(row, len[i], (int32_t)id,
			    &rank) - plain(len[i], id));
			worst = e > worst ? e : worst;
			wrong += rank != better(len[i], id);
		}
	}
	ok(worst < 1e-12, "rows of 1 to %d logits: at most %g off", MOST,
	    worst);
	ok(wrong == 0, "ranks are those counted");
}

static void
test_sizes(void)
{
	static const double spread[] = { 0, 1e-30, 1, 100, 1000, 1e5, 1e9,
	    1e15, 1e30, 3e38 };
	double e, want, worst = 0;
	size_t i, k, id, rank;

	for (i = 0; i < sizeof spread / sizeof spread[0]; i++) {
		fill(5000, spread[i]);
		for (k = 0; k < 20; k++) {
			id = draw() % 5000;
			want = plain(5000, id);
			e = fabs(logprob(row, 5000, (int32_t)id, &rank) -
			    want) / (1 + fabs(want));
			worst = e > worst ? e : worst;
		}
	}
	ok(worst < 1e-12, "logits from 0 to 3e38: at most %g off", worst);
}

static void
test_ties(void)
{
	size_t i, rank, wrong = 0;

	for (i = 0; i < 5000; i++)
		row[i] = (float)(i % 5);
	for (i = 0; i < 5000; i++) {
		logprob(row, 5000, (int32_t)i, &rank);
		wrong += rank != better(5000, i);
	}
	ok(wrong == 0, "of equals, the one with the lowest id comes first");
	for (i = 0; i < 5000; i++)
		row[i] = -7;
	ok(fabs(logprob(row, 5000, 4999, &rank) + log(5000)) < 1e-12 &&
	    rank == 4999, "all equal");
}

/* Parts computed in any order, as threads do. */
static void
test_parts(void)
{
	struct qwen_logprob_part p[3];
	size_t above, rank;
	double whole, sum;
	int i;

	fill(MOST, 9);
	whole = logprob(row, MOST, 5000, &rank);
	for (i = 2; i >= 0; i--)
		qwen_logprob_part(&p[i], row, MOST, (size_t)i, 5000);
	sum = qwen_logprob_join(p, qwen_logprob_n_parts(MOST), &above);
	ok((double)row[5000] - sum == whole && above == rank,
	    "parts give the same bits as the whole");
}

/* Against those that are sorted. */
static int
top_is_right(size_t n, size_t k)
{
	static struct qwen_sample_top got[MOST], want[MOST];
	size_t i, rank, n_got;
	double sum = qwen_logprob_sum(row, n, -1, &rank);
	int n_want = qwen_sample_top(row, NULL, n, n, want, k, NULL);

	n_got = qwen_logprob_top(row, n, sum, got, k);
	if (n_want < 0 || n_got != (size_t)n_want)
		return 0;
	for (i = 0; i < n_got; i++) {
		if (got[i].id != want[i].id || got[i].logit != want[i].logit ||
		    got[i].logprob != want[i].logprob)
			return 0;
		if (got[i].logprob != logprob(row, n, got[i].id, &rank) ||
		    rank != i)
			return 0;
	}
	return 1;
}

static void
test_top(void)
{
	static const size_t len[] = { 1, 2, 127, 128, 129, 4097, MOST };
	static const size_t most[] = { 1, 2, 5, 64, 300 };
	size_t i, k, j;
	int wrong = 0;

	for (i = 0; i < sizeof len / sizeof len[0]; i++) {
		for (k = 0; k < sizeof most / sizeof most[0]; k++) {
			fill(len[i], 12);
			wrong += !top_is_right(len[i], most[k]);
			for (j = 0; j < len[i]; j++)	/* equals, rising */
				row[j] = (float)(j / 300);
			wrong += !top_is_right(len[i], most[k]);
			for (j = 0; j < len[i]; j++)
				row[j] = -3;
			wrong += !top_is_right(len[i], most[k]);
		}
	}
	ok(wrong == 0, "the best of a row are those that sorting finds");
	ok(qwen_logprob_top(row, MOST, 0, NULL, 0) == 0, "none if none asked");
}

/* The definition, in long double: of row, measured by other. */
static double
plain_kl(const float *other, size_t n)
{
	long double pmax = other[0], qmax = row[0], ps = 0, qs = 0, kl = 0;
	size_t i;

	for (i = 1; i < n; i++) {
		pmax = other[i] > pmax ? other[i] : pmax;
		qmax = row[i] > qmax ? row[i] : qmax;
	}
	for (i = 0; i < n; i++) {
		ps += expl(other[i] - pmax);
		qs += expl(row[i] - qmax);
	}
	for (i = 0; i < n; i++)
		kl += expl(other[i] - pmax) / ps * ((other[i] - pmax - logl(ps))
		    - (row[i] - qmax - logl(qs)));
	return (double)kl;
}

static void
test_pairs(void)
{
	static const size_t len[] = { 1, 2, 127, 128, 129, 256, 4097, MOST };
	static const double off[] = { 1e-3, 0.3, 20, 500 };
	static float other[MOST];
	struct qwen_row_pair c;
	double want, worst = 0, least = 0;
	size_t i, k, n, j, id, rank;
	int same = 1;

	for (i = 0; i < sizeof len / sizeof *len; i++) {
		for (k = 0; k < sizeof off / sizeof *off; k++) {
			n = len[i];
			fill(n, off[k]);
			memcpy(other, row, n * sizeof *row);
			fill(n, 9);
			for (j = 0; j < n; j++)
				row[j] += other[j];
			id = draw() % n;
			qwen_compare_rows(row, other, n, (int32_t)id, &c);
			want = plain_kl(other, n);
			want = fabs(c.kl - want) / (1 + want);
			worst = want > worst ? want : worst;
			least = c.kl < least ? c.kl : least;
			same &= c.logprob == logprob(row, n, (int32_t)id,
			    &rank) && c.base_logprob == logprob(other, n,
			    (int32_t)id, &rank);
		}
	}
	ok(worst < 1e-12 && least >= 0, "divergence: at most %g off", worst);
	ok(same, "a pair has the logarithms that its rows have");
	qwen_compare_rows(row, row, MOST, 0, &c);
	ok(c.kl == 0 && c.same_best, "a row does not diverge from itself");
	memcpy(other, row, sizeof row);
	other[MOST - 1] = row[3] = 1e30f;
	qwen_compare_rows(row, other, MOST, 3, &c);
	ok(!c.same_best && c.kl > 9e29 && isfinite(c.kl) && c.logprob == 0,
	    "rows of certainties that differ");
}

static void
test_perplexity(void)
{
	double x, e, worst = 0;

	for (x = -690; x < 700; x += 0.37) {
		e = fabs(qwen_perplexity(x) / exp(x) - 1);
		worst = e > worst ? e : worst;
	}
	ok(worst < 1e-13, "e^x: at most %g off", worst);
	ok(qwen_perplexity(3e38) == INFINITY && qwen_perplexity(-1e9) == 0 &&
	    qwen_perplexity(0) == 1, "and at the ends");
}

int
main(void)
{
	test_lengths();
	test_sizes();
	test_ties();
	test_parts();
	test_top();
	test_pairs();
	test_perplexity();
	return done_testing();
}
