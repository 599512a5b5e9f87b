/* SPDX-License-Identifier: ISC */
/* lookup.c - earlier occurrences of the last tokens, against a plain search. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tap.h"
#include "engine/draft/lookup.h"

static uint64_t rng = 1;

static size_t
below(size_t n)
{
	rng = rng * 6364136223846793005 + 1442695040888963407;
	return (size_t)(rng >> 33) % n;
}

/* The latest of the longest, by comparing everywhere. */
static size_t
search(const struct qwen_lookup *l, const int32_t *end, size_t n, size_t *len)
{
	size_t at, k, found = 0;

	*len = 0;
	for (at = 1; at <= l->n; at++) {
		if (end == l->token && at == n)
			continue;
		for (k = 0; k < at && k < n && k < QWEN_LOOKUP_MAX &&
		    l->token[at - 1 - k] == end[n - 1 - k]; k++)
			;
		if (k >= QWEN_LOOKUP_MIN && k >= *len) {
			*len = k;
			found = at;
		}
	}
	return found;
}

static int
add(struct qwen_lookup *l, int32_t token)
{
	struct qwen_err err;

	return qwen_lookup_add(l, token, &err);
}

/* A text of few different tokens, cut now and then. */
static void
test_search(size_t alphabet, size_t n)
{
	struct qwen_lookup l = { 0 };
	size_t i, want, got, want_len, len, bad = 0, found = 0;

	for (i = 0; i < n; i++) {
		if (below(200) == 0)
			qwen_lookup_cut(&l, l.n - below(l.n + 1) / 8);
		/* runs of what was there */
		if (l.n > 40 && below(4) == 0) {
			got = below(l.n - 20);
			for (len = below(20); len > 0; len--)
				add(&l, l.token[got++]);
		} else {
			add(&l, (int32_t)below(alphabet));
		}
		want = search(&l, l.token, l.n, &want_len);
		got = qwen_lookup_find(&l, l.token, l.n, &len);
		bad += len != want_len || (len > 0 && got != want);
		found += len > 0;
	}
	ok(bad == 0 && found > 0, "%zu tokens of %zu kinds: %zu places found "
	    "as a plain search does", l.n, alphabet, found);
	qwen_lookup_fini(&l);
}

static void
test_other_text(void)
{
	struct qwen_lookup l = { 0 };
	int32_t end[100];
	size_t i, k, n, want, got, want_len, len, bad = 0;

	for (i = 0; i < 5000; i++)
		add(&l, (int32_t)below(1000));
	for (i = 0; i < 500; i++) {
		n = below(100);
		got = below(l.n - 100);
		for (k = 0; k < n; k++)
			end[k] = below(20) == 0 ? 1 : l.token[got + k];
		want = search(&l, end, n, &want_len);
		got = qwen_lookup_find(&l, end, n, &len);
		bad += len != want_len || (len > 0 && got != want);
	}
	ok(bad == 0, "in another text");
	qwen_lookup_fini(&l);
}

static void
test_small(void)
{
	struct qwen_lookup l = { 0 };
	size_t len = 9, i, bad = 0;
	int32_t end[3] = { 1, 2, 3 };

	qwen_lookup_find(&l, end, 3, &len);
	ok(len == 0, "nothing is in an empty text");
	for (i = 0; i < 6; i++) {
		add(&l, 7);
		qwen_lookup_find(&l, l.token, l.n, &len);
		bad += len != (i < QWEN_LOOKUP_MIN ? 0 : i);
	}
	ok(bad == 0, "one token over and over");
	qwen_lookup_cut(&l, 0);
	qwen_lookup_find(&l, end, 3, &len);
	ok(l.n == 0 && len == 0, "cut to nothing");
	qwen_lookup_fini(&l);
	ok(l.token == NULL, "given back");
}

/* Seconds for a text in which each token is looked up. */
static double
spent(size_t n, size_t alphabet)
{
	struct qwen_lookup l = { 0 };
	clock_t start = clock();
	size_t i, len, sum = 0;

	for (i = 0; i < n; i++) {
		add(&l, (int32_t)below(alphabet));
		sum += qwen_lookup_find(&l, l.token, l.n, &len);
	}
	qwen_lookup_fini(&l);
	return (double)(clock() - start) / CLOCKS_PER_SEC + (sum == 1);
}

static void
test_cost(void)
{
	double few = spent(300000, 3), many = spent(300000, 100000);

	printf("# a token: %.2f us where all repeats, %.2f us where little "
	    "does\n", few / 0.3, many / 0.3);
	ok(few < 15 && many < 3, "a token is soon looked up, of 300,000 too");
}

int
main(void)
{
	test_search(20, 3000);
	test_search(1000, 3000);
	test_other_text();
	test_small();
	test_cost();
	return done_testing();
}
