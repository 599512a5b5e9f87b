/* SPDX-License-Identifier: ISC */
/*
 * drafter.c - the number of drafts per pass: for given times of passes and
 * shares of right drafts, drafting never costs much time, and comes near to the
 * best fixed number of drafts if there is one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "engine/draft/draft.h"

enum { TOKENS = 4000, ALPHABET = 100000 };

/* ------------------------------------------------------------- the world */

struct costs {
	const char	*name;
	double		 row[17];	/* of passes of 1 .. 17 rows */
	double		 draft;		/* of each guess of the block */
};

static const struct costs costs[] = {
	{ "dense", { 1, 1.02, 1.04, 1.06, 1.08, 1.1, 1.12, 1.14, 1.16, 1.2,
	    1.24, 1.28, 1.32, 1.36, 1.4, 1.44, 1.48 }, 0.03 },
	{ "experts", { 1, 1.23, 1.45, 1.66, 1.86, 2.05, 2.23, 2.4, 2.56, 2.71,
	    2.85, 2.98, 3.1, 3.21, 3.31, 3.4, 3.5 }, 0.04 },
	{ "stairs", { 1, 1.05, 1.1, 1.15, 1.9, 1.9, 1.95, 2, 2.8, 2.8, 2.85,
	    2.9, 3.7, 3.7, 3.75, 3.8, 4.6 }, 0.05 },
	{ "no gain", { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	    17 }, 0.1 },
	/* below what is thought at first */
	{ "free", { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 0.01 },
};

enum { N_COSTS = sizeof costs / sizeof *costs };

struct world {
	const struct costs	*c;
	const int32_t		*text;
	size_t			 n, at;		/* read */
	double			 right;		/* share of the block's guesses */
	int			 told;		/* it knows which are */
	size_t			 phase;		/* every other one without */
	double			 noise;
	double			 cold;		/* times as long, at first */
	size_t			 n_chains;
	double			 clock, passes;
	double			 speed;		/* of the machine */
};

static struct world w;
static uint64_t rng;

static double
chance(void)
{
	rng = rng * 6364136223846793005 + 1442695040888963407;
	return (double)(rng >> 11) * 0x1p-53;
}

static double
now(void)
{
	return w.clock;
}

static void
spend(double what)
{
	double t = what * w.speed * (1 + w.noise * (2 * chance() - 1));

	/* now and then somebody else has the processor */
	if (w.noise > 0 && chance() < 0.02)
		t *= 3;
	w.clock += t;
}

static int
chain(struct qwen_session *s, int32_t next, size_t n, int32_t *id,
    float *probability, size_t *n_out, struct qwen_err *err)
{
	size_t i;
	int hit;

	(void)s;
	(void)next;
	(void)err;
	for (i = 0; i < n; i++) {
		hit = w.at + 1 + i < w.n && chance() < w.right &&
		    (w.phase == 0 || (w.at + 1 + i) / w.phase % 2 == 0);
		id[i] = hit ? w.text[w.at + 1 + i] : -1;
		probability[i] = !w.told ? 0.7f : hit ? 0.95f : 0.3f;
	}
	*n_out = n;
	spend(w.c->draft * (double)n * (w.n_chains++ < 2 ? w.cold : 1));
	return 0;
}

/* Read all of the text after the first n tokens; tokens by time of a plain pass. */
static double
run(const struct qwen_draft_opts *o, int mtp, size_t n)
{
	struct qwen_drafts all = { .o = *o, .now = now,
	    .chain = mtp ? chain : NULL };
	struct qwen_draft_pass pass = { .rows = 1, .tokens = 1 };
	struct qwen_drafter *d;
	struct qwen_err err;
	double start;
	size_t i;

	if (qwen_drafter_new(&d, &all, &err) < 0)
		return 0;
	w.clock = w.passes = 0;
	w.n_chains = 0;
	for (w.at = n; w.at < w.n; w.at += 1 + i) {
		pass.max_drafts = w.n - w.at - 1;
		if (qwen_drafter_follow(d, w.text, w.at, w.text[w.at],
		    &err) < 0 || qwen_drafter_guess(d, NULL, &pass, &err) < 0)
			break;
		start = w.clock;
		spend(w.c->row[d->n]);
		qwen_cost_pass(&all.cost, 1 + d->n, w.clock - start);
		w.passes++;
		for (i = 0; i < d->n && w.at + 1 + i < w.n &&
		    d->id[i] == w.text[w.at + 1 + i]; i++)
			;
	}
	qwen_drafter_free(d);
	return (double)(w.n - n) / (w.clock / w.speed);
}

static double
run_auto(int mtp, size_t n)
{
	return run(&(struct qwen_draft_opts){ .mode = QWEN_DRAFT_AUTO }, mtp,
	    n);
}

/* ------------------------------------------------ the block, at one rate */

/* The best of all fixed numbers. */
static double
best_fixed(size_t *n)
{
	double best = 1, all, tokens, r;
	size_t i;

	*n = 0;
	all = tokens = 1;
	for (i = 1; i <= 16; i++) {
		all *= w.right;
		tokens += all;
		r = tokens / (w.c->row[i] + (double)i * w.c->draft);
		if (r > best) {
			best = r;
			*n = i;
		}
	}
	return best;
}

static void
test_rates(void)
{
	static const double rate[] = { 0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.88,
	    0.95, 1 };
	size_t i, k, n, bad = 0, poor = 0;
	double got, best, least = 9, share = 9;

	for (i = 0; i < N_COSTS; i++)
		for (k = 0; k < sizeof rate / sizeof *rate; k++) {
			w.c = &costs[i];
			w.right = rate[k];
			best = best_fixed(&n);
			got = run_auto(1, 1);
			printf("# %s, %.2f right: %.3f, with %zu always "
			    "%.3f\n", w.c->name, w.right, got, n, best);
			bad += got < 0.98;
			poor += got < 0.9 * best;
			least = got < least ? got : least;
			share = got / best < share ? got / best : share;
		}
	ok(bad == 0, "never below 0.98 of no guesses: %.3f", least);
	ok(poor == 0, "and near the best number: %.3f", share);
}

static void
test_noise(void)
{
	static const double rate[] = { 0, 0.2, 0.5, 0.8, 0.95 };
	size_t i, k, n, poor = 0;
	double got, best, share = 9;

	w.noise = 0.1;
	for (i = 0; i < N_COSTS; i++)
		for (k = 0; k < sizeof rate / sizeof *rate; k++) {
			w.c = &costs[i];
			w.right = rate[k];
			best = best_fixed(&n);
			/* spend() makes all times longer by that */
			got = run_auto(1, 1) * 1.04;
			printf("# %s, %.2f right: %.3f, with %zu always "
			    "%.3f\n", w.c->name, w.right, got, n, best);
			poor += got < 0.9 * best;
			share = got / best < share ? got / best : share;
		}
	ok(poor == 0, "on a machine that is shared too: %.3f", share);
	w.noise = 0;
}

/*
 * The block's first guesses are slow: its weights come from memory. That is no
 * reason to leave it.
 */
static void
test_cold(void)
{
	static const double rate[] = { 0, 0.5, 0.8, 0.95 };
	size_t i, k, n, bad = 0, poor = 0;
	double got, best, least = 9, share = 9;

	w.cold = 15;
	for (i = 0; i < N_COSTS; i++)
		for (k = 0; k < sizeof rate / sizeof *rate; k++) {
			w.c = &costs[i];
			w.right = rate[k];
			best = best_fixed(&n);
			got = run_auto(1, 1);
			printf("# %s, %.2f right, a slow beginning: %.3f, "
			    "with %zu always %.3f\n", w.c->name, w.right, got,
			    n, best);
			bad += got < 0.98;
			poor += got < 0.85 * best;
			least = got < least ? got : least;
			share = got / best < share ? got / best : share;
		}
	w.cold = 1;
	ok(bad == 0, "a slow beginning costs little: %.3f", least);
	ok(poor == 0, "and is not the end of it: %.3f", share);
}

/* A short answer has no time to win back what was lost, while costs are learned. */
static void
test_short(void)
{
	size_t i, n = w.n, bad = 0;
	double got, least = 9;

	for (i = 0; i < N_COSTS; i++)
		for (w.n = 51; w.n < 2000; w.n *= 3) {
			w.c = &costs[i];
			w.right = 0;
			got = run_auto(1, 1);
			bad += got < (w.n > 100 ? 0.98 : 0.975);
			least = got < least ? got : least;
		}
	ok(bad == 0, "50 tokens and more, none of them guessed: %.3f", least);
	w.n = n;
}

/* Phases of so many tokens in which all guesses are right, or none. */
static void
test_phases(void)
{
	static const size_t phase[] = { 1, 2, 3, 5, 8, 20, 50, 200, 1000 };
	size_t i, k, bad = 0;
	double got, least = 9;

	for (i = 0; i < N_COSTS; i++)
		for (k = 0; k < sizeof phase / sizeof *phase; k++) {
			w.c = &costs[i];
			w.phase = phase[k];
			w.right = 1;
			got = run_auto(1, 1);
			printf("# %s, phases of %zu: %.3f\n", w.c->name,
			    w.phase, got);
			bad += got < 0.98;
			least = got < least ? got : least;
		}
	ok(bad == 0, "never below where it changes: %.3f", least);
	w.phase = 0;
}

/* -------------------------------------------------------------- looking up */

static void
fill(int32_t *text, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		text[i] = (int32_t)(chance() * ALPHABET);
}

/* The text again, each token another one by this chance. */
static void
repeat(int32_t *text, size_t n, size_t period, double change)
{
	size_t i;

	for (i = period; i < n; i++)
		text[i] = chance() < change ? (int32_t)(chance() * ALPHABET) :
		    text[i - period];
}

static void
test_repeated(void)
{
	static int32_t text[TOKENS];
	static const double change[] = { 0, 0.02, 0.1, 0.3, 1 };
	size_t i, k, bad = 0;
	double got, least = 9, most[N_COSTS] = { 0 };

	w.text = text;
	for (k = 0; k < sizeof change / sizeof *change; k++) {
		fill(text, TOKENS);
		repeat(text, TOKENS, TOKENS / 2, change[k]);
		for (i = 0; i < N_COSTS; i++) {
			w.c = &costs[i];
			got = run_auto(0, TOKENS / 2);
			printf("# %s, repeated with %.2f changed: %.3f\n",
			    w.c->name, change[k], got);
			bad += got < 0.98;
			least = got < least ? got : least;
			most[i] = got > most[i] ? got : most[i];
		}
	}
	ok(bad == 0, "a text that is repeated, more or less: %.3f", least);
	ok(most[0] > 8 && most[1] > 3.8 && most[4] > 14,
	    "to the letter: %.1f, with experts %.1f, at no cost %.1f times",
	    most[0], most[1], most[4]);
}

/*
 * What was before always goes on in another way after so many tokens: three, to
 * be looked up at all, and a few more.
 */
static void
test_misled(void)
{
	static int32_t text[TOKENS];
	size_t i, k, j, len, n, bad = 0;
	double got, least = 9;

	w.text = text;
	for (n = 0; n < 168; n++) {
		len = 3 + n % 21;
		fill(text, TOKENS);
		for (j = 200; j + len < TOKENS; j += len + 1) {
			k = (size_t)(chance() * 150);
			memcpy(text + j, text + k, len * sizeof *text);
		}
		for (i = 0; i < N_COSTS; i++) {
			w.c = &costs[i];
			got = run_auto(0, 100);
			bad += got < 0.98;
			least = got < least ? got : least;
		}
	}
	ok(bad == 0, "a text that misleads: %.3f", least);
}

/* ------------------------------------------------------------ fixed numbers */

/* They ask no clock: the same guesses in any world. */
static void
test_forced(void)
{
	static int32_t text[TOKENS];
	struct qwen_draft_opts o = { .mode = QWEN_DRAFT_LOOKUP };
	size_t i, bad = 0;
	double one;

	w.text = text;
	fill(text, TOKENS);
	repeat(text, TOKENS, 500, 0.05);
	for (o.n = 1; o.n <= 16; o.n++) {
		w.c = &costs[0];
		w.noise = 0.1;
		run(&o, 0, 500);
		one = w.passes;
		w.noise = 0;
		for (i = 1; i < N_COSTS; i++) {
			w.c = &costs[i];
			run(&o, 0, 500);
			bad += w.passes != one;
		}
	}
	ok(bad == 0, "1 to 16 always: the same passes whatever they cost");
}

int
main(void)
{
	static int32_t text[TOKENS];

	rng = 1;
	fill(text, TOKENS);
	w = (struct world){ .text = text, .n = TOKENS, .speed = 1,
	    .cold = 1 };
	test_rates();
	w.told = 1;
	test_rates();
	w.told = 0;
	test_noise();
	test_cold();
	test_short();
	test_phases();
	test_repeated();
	test_misled();
	test_forced();
	return done_testing();
}
