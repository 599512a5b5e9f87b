/* SPDX-License-Identifier: ISC */
/*
 * sample.c - the sampler as tools use it: options, random choices, penalties.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sample/sample.h"
#include "../tap.h"

enum { N = 8, DRAWS = 40000 };

#define EVERYWHERE 0xb2be5511dfb4d65fu
#define EVERY_METHOD 0xb30d02b06716b470u

/* Natural logarithms of a known distribution, shifted. */
static const double prob[N] = { .30, .05, .20, .10, .01, .04, .25, .05 };

static void
known_row(float *row)
{
	int i;

	for (i = 0; i < N; i++)
		row[i] = (float)(log(prob[i]) + 2.5);
}

/* "temp=0.7 top-k=40" into a sampler that has begun. */
static struct qwen_sampler *
sampler(const char *opts, size_t n_vocab)
{
	struct qwen_sampler *s;
	struct qwen_err err;
	char copy[200], *word, *eq, *save = NULL;

	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	snprintf(copy, sizeof copy, "%s", opts);
	for (word = strtok_r(copy, " ", &save); word != NULL;
	    word = strtok_r(NULL, " ", &save)) {
		if ((eq = strchr(word, '=')) != NULL)
			*eq++ = '\0';
		if (qwen_sampler_set(s, word, eq, &err) < 0) {
			printf("# %s\n", err.msg);
			abort();
		}
	}
	if (qwen_sampler_begin(s, n_vocab, &err) < 0)
		abort();
	return s;
}

static int32_t
choose(struct qwen_sampler *s, const float *row, size_t n, uint64_t pos)
{
	struct qwen_err err;
	int32_t id;

	if (qwen_sampler_sample(s, row, NULL, n, pos, &id, &err) < 0) {
		printf("# %s\n", err.msg);
		return -1;
	}
	return id;
}

/*
 * Chi-square of DRAWS positions against the expected shares; 30 is beyond
 * p = 1e-4 for up to 7 degrees of freedom.  What has share 0 must not occur.
 */
static void
check_shares(const char *opts, const double *want)
{
	struct qwen_sampler *s = sampler(opts, N);
	float row[N];
	double total = 0, chi = 0, e;
	int count[N] = { 0 }, i, impossible = 0;

	known_row(row);
	for (i = 0; i < DRAWS; i++)
		count[choose(s, row, N, (uint64_t)i)]++;
	for (i = 0; i < N; i++)
		total += want[i];
	for (i = 0; i < N; i++) {
		e = DRAWS * want[i] / total;
		if (e == 0)
			impossible += count[i];
		else
			chi += (count[i] - e) * (count[i] - e) / e;
	}
	ok(chi < 30 && impossible == 0, "shares with %s: chi-square %.1f",
	    opts, chi);
	qwen_sampler_free(s);
}

static void
test_distributions(void)
{
	double w[N];
	int i;

	check_shares("temp=1", prob);
	check_shares("temp=1 seed=12345678901234567890", prob);
	for (i = 0; i < N; i++)
		w[i] = pow(prob[i], 1 / 0.7);
	check_shares("temp=0.7 seed=1", w);
	for (i = 0; i < N; i++)
		w[i] = sqrt(prob[i]);
	check_shares("temp=2 seed=2", w);
	for (i = 0; i < N; i++)
		w[i] = prob[i] >= .2 ? prob[i] : 0;
	check_shares("temp=1 top-k=3 seed=3", w);
	check_shares("temp=1 top-p=0.7 seed=4", w);
	check_shares("temp=1 min-p=0.6 seed=5", w);
	/* ties: token 1 stays, token 7 has the same logit and goes */
	for (i = 0; i < N; i++)
		w[i] = prob[i] >= .05 && i != 7 ? prob[i] : 0;
	check_shares("temp=1 top-k=5 seed=6", w);
	/* top-p looks at the shares before the temperature */
	for (i = 0; i < N; i++)
		w[i] = prob[i] >= .2 ? sqrt(prob[i]) : 0;
	check_shares("temp=2 top-p=0.7 seed=7", w);
	/* 0.3 and 0.25 of the best four's 0.85 are 0.647 */
	for (i = 0; i < N; i++)
		w[i] = prob[i] >= .25 ? prob[i] : 0;
	check_shares("temp=1 top-k=4 top-p=0.64 seed=8", w);
	memset(w, 0, sizeof w);
	w[0] = 1;
	check_shares("temp=0", w);
	check_shares("seed=9", w);
	check_shares("temp=1 top-k=1", w);
	check_shares("temp=1 top-p=0", w);
	check_shares("temp=1 min-p=1", w);
	check_shares("temp=3 greedy", w);
	check_shares("temp=0.0001", w);
}

/* Computed with Python's integers from the formula in sample.h. */
static void
test_uniform(void)
{
	static const struct { uint64_t seed, pos; double u; } want[] = {
		{ 0, 0, 0.6524484863740322 }, { 1, 0, 0.36818951565166946 },
		{ 1, 1000000, 0.6958339023330885 }, { UINT64_MAX, 7, 0.7238582745899125 },
	};
	double sum = 0, u;
	size_t i;
	int range = 1;

	for (i = 0; i < 4; i++)
		ok(qwen_sample_uniform(want[i].seed, want[i].pos) == want[i].u,
		    "number of seed %llu, position %llu",
		    (unsigned long long)want[i].seed,
		    (unsigned long long)want[i].pos);
	for (i = 0; i < 100000; i++) {
		u = qwen_sample_uniform(i / 300, i % 300);
		range &= u >= 0 && u < 1;
		sum += u;
	}
	ok(range && fabs(sum / 100000 - .5) < .004, "mean %.4f", sum / 100000);
}

/*
 * What every machine and compiler must choose: a hash over 3000 choices from
 * rows of exact numbers.
 */
static void
test_everywhere(void)
{
	static const char *const opts[] = {
		"temp=1 seed=3", "temp=0.7 seed=4 top-p=0.9",
		"temp=1.3 seed=5 top-k=40 min-p=0.02",
		"temp=0.9 seed=6 repeat-penalty=1.1 frequency-penalty=0.3",
		"presence-penalty=0.7 penalty-last-n=20",
	};
	static float row[1000];
	uint64_t x = 1, hash = 0xcbf29ce484222325;
	struct qwen_sampler *s;
	size_t i, k, pos;
	int32_t id;

	for (i = 0; i < sizeof opts / sizeof opts[0]; i++) {
		s = sampler(opts[i], 1000);
		for (pos = 0; pos < 600; pos++) {
			for (k = 0; k < 1000; k++) {
				x = x * 6364136223846793005u + 1442695040888963407u;
				row[k] = (float)(int32_t)(x >> 40) * 0x1p-21f;
			}
			id = choose(s, row, 1000, pos);
			qwen_sampler_accept(s, &id, 1, 1, NULL);
			hash = (hash ^ (uint64_t)id) * 0x100000001b3;
		}
		qwen_sampler_free(s);
	}
	ok(hash == EVERYWHERE, "the same choices everywhere: %016llx",
	    (unsigned long long)hash);
}

/* Rows of exact numbers: a bell, one with far ends, a few values, one value. */
static void
exact_row(float *row, size_t n, int kind, uint64_t *x)
{
	size_t i, k;
	int32_t sum, r = 0;

	for (i = 0; i < n; i++) {
		for (k = 0, sum = 0; k < 4; k++) {
			*x = *x * 6364136223846793005u + 1442695040888963407u;
			r = (int32_t)(*x >> 40) - (1 << 23);
			sum += r;
		}
		row[i] = kind == 0 ? (float)sum * 0x1p-23f :
		    kind == 1 ? (r % 9 == 0 ? -1e30f : (float)sum * 0x1p-21f) :
		    kind == 2 ? (float)(r % 5) : 1.25f;
	}
}

/*
 * The same of all methods, over rows with all lengths around the blocks that
 * they work in.  The hash is from before there were passes for each CPU.
 */
static void
test_every_method(const char *level)
{
	static const char *const opts[] = {
		"temp=1 seed=3", "temp=0.7 seed=4 top-p=0.9",
		"temp=1.3 seed=5 top-k=40 min-p=0.02", "temp=1 top-k=700",
		"temp=1 typical=0.9", "temp=0.8 top-p=0.95 typical=0.5",
		"temp=1 top-n-sigma=1.5", "dyntemp-max=2 top-p=0.97",
		"temp=1 xtc-probability=0.7", "mirostat=6",
		"temp=1 xtc-probability=0.7 xtc-threshold=0.0001 min-p=0.01",
		"temp=1.5 top-p=0.9 min-p=0.02 chain=temp,top-p,min-p",
		"typical=0.95 top-p=0.95 min-p=0.01 xtc-probability=0.5 temp=2",
		"top-n-sigma=2 typical=0.97 top-p=0.98 dyntemp-max=2 mirostat=9",
		"temp=0.9 frequency-penalty=0.3 logit-bias=7=2 logit-bias=8=-inf",
	};
	static const size_t lengths[] = { 9, 63, 64, 257, 1100, 9000 };
	static float row[9000];
	uint64_t x = 1, hash = 0xcbf29ce484222325;
	struct qwen_sampler *s;
	size_t i, k, pos;
	int32_t id;

	for (i = 0; i < sizeof opts / sizeof opts[0]; i++) {
		for (k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
			s = sampler(opts[i], lengths[k]);
			qwen_sampler_cpu(s, level, NULL);
			qwen_sampler_begin(s, lengths[k], NULL);
			for (pos = 0; pos < 24; pos++) {
				exact_row(row, lengths[k], (int)(pos % 4), &x);
				id = choose(s, row, lengths[k], pos);
				qwen_sampler_accept(s, &id, 1, 1, NULL);
				hash = (hash ^ (uint64_t)id) * 0x100000001b3;
			}
			qwen_sampler_free(s);
		}
	}
	ok(hash == EVERY_METHOD, "and of every method, %s: %016llx",
	    level != NULL ? level : "with the best passes",
	    (unsigned long long)hash);
}

/* Position p gives the same token whatever was drawn before. */
static void
test_position(void)
{
	struct qwen_sampler *a = sampler("temp=1 seed=5", N);
	struct qwen_sampler *b = sampler("temp=1 seed=5", N);
	struct qwen_sampler *c = sampler("temp=1 seed=6", N);
	float row[N];
	int i, same = 0, other = 0;
	int32_t id[200];

	known_row(row);
	for (i = 0; i < 200; i++)
		id[i] = choose(a, row, N, (uint64_t)i);
	for (i = 199; i >= 0; i--) {
		same += choose(b, row, N, (uint64_t)i) == id[i];
		other += choose(c, row, N, (uint64_t)i) == id[i];
	}
	ok(same == 200, "a draw depends on seed and position alone");
	ok(other < 100, "another seed gives other draws (%d of 200 equal)",
	    other);
	qwen_sampler_free(a);
	qwen_sampler_free(b);
	qwen_sampler_free(c);
}

/* A row cut to chosen tokens, in any order, is a row. */
static void
test_sparse(void)
{
	static const int32_t ids[] = { 90, 3, 40 }, twice[] = { 1, 2, 1 };
	static const float v[] = { 1, 4, 2 };
	struct qwen_sampler *s = sampler("", 100);
	struct qwen_err err;
	int32_t id;

	ok(qwen_sampler_sample(s, v, ids, 3, 0, &id, &err) == 0 && id == 3,
	    "a row of three tokens");
	ok(qwen_sampler_sample(s, v, twice, 3, 0, &id, &err) < 0 &&
	    err.code == QWEN_ERANGE, "a token twice: %s", err.msg);
	qwen_sampler_free(s);
	s = sampler("", 50);
	ok(qwen_sampler_sample(s, v, ids, 3, 0, &id, &err) < 0 &&
	    err.code == QWEN_ERANGE, "a token outside: %s", err.msg);
	ok(qwen_sampler_sample(s, v, ids, 0, 0, &id, &err) < 0,
	    "an empty row: %s", err.msg);
	qwen_sampler_free(s);
}

static void
test_not_finite(void)
{
	static const float bad[] = { NAN, INFINITY, -INFINITY };
	struct qwen_sampler *s = sampler("temp=1", N);
	struct qwen_err err;
	float row[N];
	int32_t id;
	int i;

	for (i = 0; i < 3; i++) {
		known_row(row);
		row[5] = bad[i];
		ok(qwen_sampler_sample(s, row, NULL, N, 0, &id, &err) < 0 &&
		    err.code == QWEN_ENUMERIC && strstr(err.msg, "token 5"),
		    "%s", err.msg);
	}
	qwen_sampler_free(s);
}

static void
test_mask(void)
{
	static const int32_t best[] = { 6, 0, 77 };
	struct qwen_sampler *s = sampler("", N);
	struct qwen_err err;
	float row[N];
	int32_t all[N] = { 0, 1, 2, 3, 4, 5, 6, 7 }, id;

	known_row(row);
	qwen_sampler_mask(s, best, 3, &err);
	ok(choose(s, row, N, 0) == 2, "masked tokens are not chosen");
	qwen_sampler_mask(s, all, N, &err);
	ok(qwen_sampler_sample(s, row, NULL, N, 0, &id, &err) < 0,
	    "%s", err.msg);
	qwen_sampler_mask(s, NULL, 0, &err);
	ok(choose(s, row, N, 0) == 0, "and can be chosen again");
	qwen_sampler_free(s);
}

/* As --logit-bias, on top of it, without a copy. */
static void
test_bias(void)
{
	static const int32_t ids[] = { 1, 3 }, outside[] = { N };
	static const float x[] = { 50, 1e30f }, nan = NAN;
	struct qwen_sampler *s = sampler("logit-bias=3=-1e30", N);
	struct qwen_sampler *copy = NULL;
	struct qwen_err err;
	float row[N];

	known_row(row);
	qwen_sampler_bias(s, ids, x, 2);
	ok(!qwen_sampler_is_greedy(s) && qwen_sampler_copy(&copy, s,
	    &err) == 0 && qwen_sampler_begin(copy, N, &err) == 0,
	    "a sampler with biases, and its copy");
	ok(choose(copy, row, N, 0) == 1, "the biased token is chosen");
	qwen_sampler_bias(s, outside, x, 1);
	ok(qwen_sampler_begin(s, N, &err) < 0, "%s", err.msg);
	qwen_sampler_bias(s, ids, &nan, 1);
	ok(qwen_sampler_begin(s, N, &err) < 0, "%s", err.msg);
	qwen_sampler_free(copy);
	qwen_sampler_free(s);
}

/* The best token after the history, by options; rows are { 3, 2.5, -1, ... }. */
static int32_t
after(const char *opts, const char *prompt, const char *generated)
{
	static const float row[4] = { 3, 2.5f, 2, -1 };
	struct qwen_sampler *s = sampler(opts, 4);
	int32_t id;

	for (; *prompt != '\0'; prompt++) {
		id = *prompt - '0';
		qwen_sampler_accept(s, &id, 1, 0, NULL);
	}
	for (; *generated != '\0'; generated++) {
		id = *generated - '0';
		qwen_sampler_accept(s, &id, 1, 1, NULL);
	}
	id = choose(s, row, 4, 0);
	qwen_sampler_free(s);
	return id;
}

static void
test_penalties(void)
{
	struct qwen_sampler *s;
	struct qwen_err err;
	int32_t id = 4;

	ok(after("", "", "000") == 0, "no penalty by default");
	ok(after("repeat-penalty=1.3", "", "0") == 1, "repeated: divided");
	ok(after("repeat-penalty=1.1", "", "0") == 0, "but not by enough");
	ok(after("repeat-penalty=1.3", "", "01") == 0, "both divided");
	ok(after("repeat-penalty=1.3", "0", "") == 0, "prompt does not count");
	ok(after("repeat-penalty=1.3 penalty-prompt", "0", "") == 1,
	    "with --penalty-prompt it does");
	ok(after("presence-penalty=0.6", "", "0") == 1, "presence");
	ok(after("presence-penalty=0.4", "", "00000") == 0,
	    "presence does not count");
	ok(after("frequency-penalty=0.4", "", "0") == 0, "frequency, once");
	ok(after("frequency-penalty=0.4", "", "00") == 1, "frequency, twice");
	ok(after("frequency-penalty=-1", "", "3333") == 0, "-1 + 4 ties at 3");
	ok(after("frequency-penalty=-1", "", "33333") == 3, "a reward");
	ok(after("repeat-penalty=0.5", "", "3") == 0, "-1 / 2 is worse");
	ok(after("presence-penalty=9 penalty-last-n=2", "", "011") == 0,
	    "out of the window");
	ok(after("presence-penalty=9 penalty-last-n=3", "", "011") == 2,
	    "still in the window");
	ok(after("presence-penalty=9 penalty-last-n=0", "", "0") == 0,
	    "an empty window");
	ok(after("presence-penalty=9 penalty-last-n=-1", "", "0111111111"
	    "11111111111111111111111111111111111111111111111111111111111111"
	    "111111111111111111111111111111") == 2, "all of it");
	ok(after("presence-penalty=9", "", "0111111111"
	    "11111111111111111111111111111111111111111111111111111111111111"
	    "111111111111111111111111111111") == 0, "64 by default");
	ok(after("presence-penalty=9 penalty-last-n=2 penalty-prompt", "001",
	    "1") == 0, "the window runs over the prompt's end");
	s = sampler("", 4);
	ok(qwen_sampler_sample(s, NULL, NULL, 4, 0, &id, &err) < 0 &&
	    err.code == QWEN_ERANGE, "without logits: %s", err.msg);
	qwen_sampler_free(s);
	id = 4;
	s = sampler("presence-penalty=1", 4);
	ok(qwen_sampler_accept(s, &id, 1, 1, &err) < 0 &&
	    err.code == QWEN_ERANGE, "%s", err.msg);
	id = 0;
	qwen_sampler_accept(s, &id, 1, 1, &err);
	qwen_sampler_begin(s, 4, &err);
	ok(choose(s, (float[]){ 3, 2.5f, 2, -1 }, 4, 0) == 0,
	    "begin forgets the tokens");
	qwen_sampler_free(s);
}

static void
refuse(const char *name, const char *text, int code)
{
	struct qwen_sampler *s;
	struct qwen_err err = { 0 };

	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	ok(qwen_sampler_set(s, name, text, &err) < 0 && err.code == code,
	    "%s", err.msg);
	qwen_sampler_free(s);
}

static void
test_options(void)
{
	struct qwen_sampler *s;
	struct qwen_err err;
	const struct qwen_sample_opt *o;
	char buf[200];
	size_t i, n = qwen_sample_n_opts();
	int good = 1;

	for (i = 0; i < n; i++) {
		o = qwen_sample_opt(i);
		good &= o->name != NULL && o->help != NULL &&
		    (o->arg == NULL) == (o->type == QWEN_SAMPLE_FLAG) &&
		    o->min <= o->max;
	}
	ok(good && qwen_sample_opt(n) == NULL, "%zu options describe themselves",
	    n);
	ok(strcmp(qwen_sample_opt(0)->name, "seed") == 0 &&
	    strcmp(qwen_sample_opt(1)->name, "chain") == 0 &&
	    strcmp(qwen_sample_opt(n - 1)->name, "mirostat-eta") == 0,
	    "seed and chain first, then by rank");
	refuse("no-such", "1", QWEN_EUNSUP);
	refuse("temp", "", QWEN_ERANGE);
	refuse("temp", "-1", QWEN_ERANGE);
	refuse("temp", "1e9", QWEN_ERANGE);
	refuse("temp", "nan", QWEN_ERANGE);
	refuse("temp", "inf", QWEN_ERANGE);
	refuse("temp", "0x1", QWEN_ERANGE);
	refuse("temp", " 1", QWEN_ERANGE);
	refuse("temp", "1 ", QWEN_ERANGE);
	refuse("temp", "1e", QWEN_ERANGE);
	refuse("temp", NULL, QWEN_ERANGE);
	refuse("top-k", "1.5", QWEN_ERANGE);
	refuse("top-k", "-1", QWEN_ERANGE);
	refuse("top-k", "99999999999999999999999", QWEN_ERANGE);
	refuse("top-p", "1.01", QWEN_ERANGE);
	refuse("seed", "-1", QWEN_ERANGE);
	refuse("seed", "18446744073709551616", QWEN_ERANGE);
	refuse("greedy", "2", QWEN_ERANGE);
	s = sampler("temp=0.70 top-k=40 seed=18446744073709551615 greedy", 4);
	ok(qwen_sampler_set(s, "temp", "1", &err) < 0, "%s", err.msg);
	qwen_sampler_describe(s, buf, sizeof buf);
	ok(strcmp(buf, "seed=18446744073709551615 greedy=1 top-k=40 temp=0.7")
	    == 0, "%s", buf);
	n = strlen(buf);
	ok(qwen_sampler_describe(s, buf, 10) == n &&
	    strcmp(buf, "seed=1844") == 0, "cut like snprintf");
	qwen_sampler_free(s);
	s = sampler("temp=0.1 min-p=0.3333333333333333", 4);
	qwen_sampler_describe(s, buf, sizeof buf);
	ok(strcmp(buf, "min-p=0.3333333333333333 temp=0.1") == 0,
	    "numbers read back as they were: %s", buf);
	qwen_sampler_free(s);
}

/* "temp=0.7" into one that has not begun. */
static struct qwen_sampler *
fresh(const char *opts)
{
	struct qwen_sampler *s;
	struct qwen_err err;

	if (qwen_sampler_new(&s, &err) < 0 ||
	    qwen_sampler_read(s, opts, &err) < 0)
		abort();
	return s;
}

static void
test_copy(void)
{
	const char *opts = "seed=18446744073709551615 stop=a stop=b%20c "
	    "logit-bias=2=-inf top-k=5 temp=0.7";
	struct qwen_sampler *s = fresh(opts), *t;
	struct qwen_err err;
	float row[N];
	int32_t mask = 0;
	char buf[200];
	uint64_t pos;
	int same = 1;

	ok(qwen_sampler_seed(s) == UINT64_MAX &&
	    qwen_sampler_number(s, "temp") == 0.7 &&
	    qwen_sampler_number(s, "top-k") == 5 &&
	    qwen_sampler_number(s, "min-tokens") == 0, "values of options");
	ok(isnan(qwen_sampler_number(s, "stop")) &&
	    isnan(qwen_sampler_number(s, "no-such")), "and none of others");
	if (qwen_sampler_mask(s, &mask, 1, &err) < 0 ||
	    qwen_sampler_copy(&t, s, &err) < 0)
		abort();
	qwen_sampler_describe(t, buf, sizeof buf);
	ok(strcmp(buf, opts) == 0, "a copy has the options: %s", buf);
	qwen_sampler_reset(s, "stop");
	qwen_sampler_reset(s, "temp");
	qwen_sampler_reset(s, "no-such");
	qwen_sampler_describe(s, buf, sizeof buf);
	ok(strcmp(buf, "seed=18446744073709551615 logit-bias=2=-inf top-k=5")
	    == 0 && qwen_sampler_text(t, "stop", 1) != NULL,
	    "of its own; two are back at their defaults: %s", buf);
	qwen_sampler_free(s);
	qwen_sampler_reset(t, "stop");
	s = fresh("seed=18446744073709551615 logit-bias=2=-inf top-k=5 "
	    "temp=0.7");
	known_row(row);
	if (qwen_sampler_mask(s, &mask, 1, &err) < 0 ||
	    qwen_sampler_begin(s, N, &err) < 0 ||
	    qwen_sampler_begin(t, N, &err) < 0)
		abort();
	for (pos = 0; pos < 500; pos++) {
		int32_t id = choose(t, row, N, pos);

		same &= id == choose(s, row, N, pos) && id != 0 && id != 2;
	}
	ok(same, "and masks the same tokens, and draws the same");
	qwen_sampler_free(s);
	qwen_sampler_free(t);
}

static void
test_is_greedy(void)
{
	static const struct {
		const char	*opts;
		int		 greedy;
	} c[] = {
		{ "", 1 }, { "seed=7", 1 }, { "temp=0 top-k=40", 1 },
		{ "greedy=1 temp=2", 1 }, { "temp=0.1", 0 },
		{ "repeat-penalty=1.1", 0 }, { "logit-bias=1=2", 0 },
		{ "min-tokens=2", 0 }, { "stop=x", 0 }, { "think-max=4", 0 },
		{ "chain=top-k temp=1", 0 },
	};
	struct qwen_sampler *s;
	struct qwen_err err;
	int32_t mask = 3;
	size_t i;

	for (i = 0; i < sizeof c / sizeof c[0]; i++) {
		s = fresh(c[i].opts);
		ok(qwen_sampler_is_greedy(s) == c[i].greedy,
		    "%s \"%s\" takes the best token and nothing else",
		    c[i].greedy ? "with" : "not with", c[i].opts);
		if (qwen_sampler_mask(s, &mask, 1, &err) < 0)
			abort();
		if (i == 0)
			ok(!qwen_sampler_is_greedy(s),
			    "nor where a token is masked");
		qwen_sampler_free(s);
	}
}

static void
test_top(void)
{
	struct qwen_sample_top top[N];
	struct qwen_err err;
	float row[N];
	double sum = 0;
	int i, n;

	known_row(row);
	ok(qwen_sample_top(row, NULL, N, N, top, 3, &err) == 3 &&
	    top[0].id == 0 && top[1].id == 6 && top[2].id == 2,
	    "the three best in order");
	ok(fabs(top[1].logprob - log(.25)) < 1e-6, "log-probability");
	n = qwen_sample_top(row, NULL, N, N, top, N, &err);
	for (i = 0; i < n; i++)
		sum += exp(top[i].logprob);
	ok(n == N && fabs(sum - 1) < 1e-9, "probabilities sum up to 1");
	ok(top[4].id == 1 && top[5].id == 7, "ties by lowest id");
	ok(qwen_sample_top(row, NULL, N, N, top, 0, &err) == 0, "none");
	row[0] = NAN;
	ok(qwen_sample_top(row, NULL, N, N, top, 3, &err) < 0, "%s", err.msg);
}

int
main(void)
{
	test_distributions();
	test_uniform();
	test_everywhere();
	test_every_method(NULL);
	test_every_method("scalar");
	test_every_method("avx2");
	test_position();
	test_sparse();
	test_not_finite();
	test_mask();
	test_bias();
	test_penalties();
	test_options();
	test_copy();
	test_is_greedy();
	test_top();
	return done_testing();
}
