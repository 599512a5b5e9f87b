/* SPDX-License-Identifier: ISC */
/*
 * sample_shares.c - how often the less common methods choose each token of a
 * known row; effects of earlier tokens; the order of the chain.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pieces.h"
#include "engine/sample/sample.h"
#include "../tap.h"

enum { N = 8, DRAWS = 20000 };

static const double prob[N] = { .30, .05, .20, .10, .01, .04, .25, .05 };

/* A vocabulary of eight: 6 and 7 are the thinking tokens. */
static uint32_t at[N + 1] = { 0, 2, 4, 5, 7, 8, 9, 9, 9 };
static char bytes[] = "abbc\n\n\n:x";
static int32_t eog[] = { 5 };
static const struct qwen_pieces pieces = {
	.n = N, .at = at, .bytes = bytes, .eog = eog, .n_eog = 1,
	.think = 6, .unthink = 7,
};

static void
known_row(float *row)
{
	int i;

	for (i = 0; i < N; i++)
		row[i] = (float)(log(prob[i]) + 2.5);
}

static struct qwen_sampler *
sampler(const char *opts)
{
	struct qwen_sampler *s;
	struct qwen_err err;

	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	qwen_sampler_pieces(s, &pieces);
	if (qwen_sampler_read(s, opts, &err) < 0 ||
	    qwen_sampler_eog(s, eog, 1, &err) < 0 ||
	    qwen_sampler_begin(s, N, &err) < 0) {
		printf("# %s: %s\n", opts, err.msg);
		abort();
	}
	return s;
}

static int32_t
choose(struct qwen_sampler *s, uint64_t pos)
{
	struct qwen_err err;
	float row[N];
	int32_t id;

	known_row(row);
	if (qwen_sampler_sample(s, row, NULL, N, pos, &id, &err) < 0) {
		printf("# %s\n", err.msg);
		return -1;
	}
	return id;
}

static void
tell(struct qwen_sampler *s, const char *tokens, int generated)
{
	struct qwen_err err;

	for (; *tokens != '\0'; tokens++) {
		int32_t id = *tokens - '0';

		if (qwen_sampler_accept(s, &id, 1, generated, &err) < 0)
			abort();
	}
}

/*
 * Chi-square against the expected shares; 30 is beyond p = 1e-4 for up to 7
 * degrees of freedom, and the draws are the same every time.
 */
static void
check_shares(const char *opts, const char *history, const double *want)
{
	struct qwen_sampler *s = sampler(opts);
	double total = 0, chi = 0, e;
	int count[N] = { 0 }, i, impossible = 0;
	int32_t id;

	tell(s, history, 1);
	for (i = 0; i < DRAWS; i++) {
		if ((id = choose(s, (uint64_t)i)) < 0)
			break;
		count[id]++;
	}
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

/* Those of the tokens listed, to the power of e. */
static void
check_subset(const char *opts, const char *history, const char *tokens,
    double e)
{
	double w[N] = { 0 };

	for (; *tokens != '\0'; tokens++)
		w[*tokens - '0'] = pow(prob[*tokens - '0'], e);
	check_shares(opts, history, w);
}

static void
test_cuts(void)
{
	double mean = 0, var = 0, h = 0, x, w[N];
	char sigma[3][N + 1] = { "", "", "" };
	int i, k;

	/* entropy 1.75 nats; surprises 1.20 3.00 1.61 2.30 4.61 3.22 1.39 3.00 */
	check_subset("temp=1 typical=0.15", "", "2", 1);
	check_subset("temp=1 typical=0.3", "", "26", 1);
	check_subset("temp=1 typical=0.5", "", "260", 1);
	check_subset("temp=1 typical=0.8 seed=3", "", "0236", 1);
	for (i = 0; i < N; i++)
		mean += log(prob[i]) / N;
	for (i = 0; i < N; i++) {
		x = log(prob[i]) - mean;
		var += x * x / N;
		h -= prob[i] * log(prob[i]);
	}
	for (k = 0; k < 3; k++) {
		for (i = 0; i < N; i++) {
			if (log(prob[i]) >= log(.3) - (.5 + k) * sqrt(var))
				sigma[k][strlen(sigma[k])] = (char)('0' + i);
		}
	}
	check_subset("temp=1 top-n-sigma=0.5", "", sigma[0], 1);
	check_subset("temp=1 top-n-sigma=1.5", "", sigma[1], 1);
	check_subset("temp=2 top-n-sigma=2.5", "", sigma[2], .5);
	/* 0.3 0.25 0.2 are likely; the last of them stays */
	check_subset("temp=1 xtc-probability=1 xtc-threshold=0.15", "",
	    "123457", 1);
	for (i = 0; i < N; i++)
		w[i] = .6 * prob[i] + (i == 0 || i == 6 ? 0 :
		    .4 * prob[i] / (1 - .55));
	check_shares("temp=1 xtc-probability=0.4 xtc-threshold=0.15 seed=9", "",
	    w);
	check_subset("temp=1 xtc-probability=1 xtc-threshold=0.6", "",
	    "01234567", 1);
	check_subset("temp=1 xtc-probability=1 xtc-threshold=0.28", "",
	    "01234567", 1);
	/* T = 0.5 + 1.5 * (h / ln 8)^2 */
	check_subset("dyntemp-min=0.5 dyntemp-max=2 dyntemp-exponent=2", "",
	    "01234567", 1 / (.5 + 1.5 * pow(h / log(8), 2)));
	check_subset("dyntemp-min=0.7 dyntemp-max=0.7 temp=2", "", "01234567",
	    1 / 1.4);
	/* mu begins at 2 tau: 2.1 bits are p >= 0.233 */
	check_subset("mirostat=1.05", "", "06", 1);
	check_subset("mirostat=0.1", "", "0", 1);
	check_subset("mirostat=20", "", "01234567", 1);
	check_subset("mirostat=20 temp=0.5", "", "01234567", 2);
}

static void
test_edits(void)
{
	double w[N];

	memcpy(w, prob, sizeof w);
	w[4] *= exp(3.5);
	w[0] *= exp(-1);
	w[2] = 0;
	check_shares("temp=1 logit-bias=4=3.5 logit-bias=0=-1 "
	    "logit-bias=2=-inf", "", w);
	memcpy(w, prob, sizeof w);
	w[5] = 0;
	check_shares("temp=1 min-tokens=3", "12", w);
	check_shares("temp=1 min-tokens=3", "123", prob);
	/* after 5 6 1 5 6: 1 would go on with two tokens, after 4 0 alone no */
	memcpy(w, prob, sizeof w);
	w[1] *= exp(-1.5);
	check_shares("temp=1 dry-multiplier=1.5", "56156", w);
	w[1] = prob[1] * exp(-1.5 * 2 * 2);
	check_shares("temp=1 dry-multiplier=1.5 dry-base=2 "
	    "dry-allowed-length=1", "0441304413044", prob);
}

static void
test_dry(void)
{
	double w[N];

	/* the same sequence of four before 1: 1.5 * 2^(4 - 2) */
	memcpy(w, prob, sizeof w);
	w[1] *= exp(-6);
	check_shares("temp=1 dry-multiplier=1.5 dry-base=2 dry-breaker=%0a",
	    "05601" "0560", w);
	check_shares("temp=1 dry-multiplier=1.5 dry-base=2 dry-last-n=3",
	    "0560105600", prob);
	/* a breaker inside: token 2 is a new line */
	check_shares("temp=1 dry-multiplier=5", "42142", prob);
	check_shares("temp=1 dry-multiplier=5 dry-breaker=zz", "42142",
	    (double[]){ .30, .05 * exp(-5), .20, .10, .01, .04, .25, .05 });
}

/* The prompt counts only if asked for, and text after it does not forget. */
static void
test_dry_prompt(void)
{
	struct qwen_sampler *a = sampler("dry-multiplier=50"), *b;

	b = sampler("dry-multiplier=50 dry-prompt=1");
	tell(a, "5605", 0);
	tell(b, "5605", 0);
	tell(a, "6", 1);
	tell(b, "6", 1);
	ok(choose(a, 0) == 0 && choose(b, 0) == 6, "dry-prompt");
	qwen_sampler_free(a);
	qwen_sampler_free(b);
}

/* 100,000 tokens of one kind: the worst there is for matching. */
static void
test_dry_long(void)
{
	struct qwen_sampler *s = sampler("dry-multiplier=1 dry-prompt=1");
	int i;

	for (i = 0; i < 100000; i++)
		tell(s, "0", 1);
	ok(choose(s, 0) == 6, "dry after 100,000 equal tokens");
	qwen_sampler_free(s);
}

/* Mirostat's mean surprise comes out at tau, and its memory goes on. */
static void
test_mirostat(void)
{
	struct qwen_sampler *a = sampler("mirostat=1.8 seed=4"), *b = NULL;
	char memory[QWEN_SAMPLER_MEMORY];
	struct qwen_err err;
	int32_t id;
	int i, same = 0;

	for (i = 0; i < 500; i++) {
		id = choose(a, (uint64_t)i);
		qwen_sampler_accept(a, &id, 1, 1, &err);
		if (i >= 250) {
			same += choose(b, (uint64_t)i) == id;
			qwen_sampler_accept(b, &id, 1, 1, &err);
		}
		if (i != 249)
			continue;
		b = sampler("mirostat=1.8 seed=4");
		qwen_sampler_save(a, memory);
		if (qwen_sampler_restore(b, memory, &err) < 0)
			printf("# %s\n", err.msg);
	}
	ok(same == 250, "mirostat goes on where it was: %s", memory);
	qwen_sampler_save(a, memory);
	ok(strncmp(memory, "mirostat=", 9) == 0, "it has a memory: %s", memory);
	ok(qwen_sampler_restore(a, "mirostat=x", &err) < 0, "%s", err.msg);
	ok(qwen_sampler_restore(a, "mirostat", &err) < 0, "%s", err.msg);
	ok(qwen_sampler_restore(a, "mirostat=1e99", &err) < 0, "%s", err.msg);
	ok(qwen_sampler_restore(a, "other=1", &err) == 0,
	    "what another method left does not matter");
	qwen_sampler_free(a);
	qwen_sampler_free(b);
	a = sampler("temp=1");
	qwen_sampler_save(a, memory);
	ok(memory[0] == '\0', "others have none");
	qwen_sampler_free(a);
}

/* Texts: 0 "ab", 1 "bc", 2 LF, 3 LF LF, 4 ":", 5 "x", 6 and 7 none. */
static int
stopped(const char *opts, const char *prompt, const char *generated)
{
	struct qwen_sampler *s = sampler(opts);
	int got;

	tell(s, prompt, 0);
	tell(s, generated, 1);
	got = qwen_sampler_stopped(s);
	qwen_sampler_free(s);
	return got;
}

static void
test_stop(void)
{
	ok(stopped("stop=ab", "", "0"), "a text in one token");
	ok(stopped("stop=abbc:", "", "014"), "across borders");
	ok(stopped("stop=bb", "", "01"), "inside of both");
	ok(stopped("stop=bb", "", "061"), "a token without text between");
	ok(!stopped("stop=bb", "", "051"), "one with text between");
	ok(!stopped("stop=bb", "0", "1"), "not begun in the prompt");
	ok(!stopped("stop=ab", "", "05"), "only at once");
	ok(!stopped("stop=ab", "0", ""), "not by the prompt");
	ok(!stopped("stop=xx stop=q", "", "015"), "not yet");
	ok(stopped("stop=xx stop=q", "", "0155"), "one of two");
	ok(stopped("stop=%0a%0a", "", "22"), "two new lines");
	ok(!stopped("stop=ab min-tokens=3", "", "00"), "not before min-tokens");
	ok(stopped("stop=ab min-tokens=3", "", "000"), "but then");
}

/* Force tokens until none is; what they were, as digits. */
static const char *
thinking(const char *opts, const char *prompt, const char *generated)
{
	static char text[16];
	struct qwen_sampler *s = sampler(opts);
	size_t n = 0;
	char one[2] = "";

	tell(s, prompt, 0);
	tell(s, generated, 1);
	while (n < 8) {
		one[0] = (char)('0' + choose(s, n));
		if (one[0] == '0')	/* the best one: nothing is forced */
			break;
		text[n++] = one[0];
		tell(s, one, 1);
	}
	text[n] = '\0';
	qwen_sampler_free(s);
	return text;
}

static void
test_think(void)
{
	const char *t;

	t = thinking("think-max=3", "6", "555");
	ok(strcmp(t, "273") == 0, "closed on a line of its own: %s", t);
	t = thinking("think-max=3", "6", "552");
	ok(strcmp(t, "73") == 0, "a line that is there is enough: %s", t);
	t = thinking("think-max=3", "6", "5552");
	ok(strcmp(t, "73") == 0, "a run that was cut there: %s", t);
	t = thinking("think-max=3", "6", "55527");
	ok(strcmp(t, "3") == 0, "or there: %s", t);
	t = thinking("think-max=3", "6", "555273");
	ok(strcmp(t, "") == 0, "then it is over");
	t = thinking("think-max=3", "6", "55");
	ok(strcmp(t, "") == 0, "not before");
	t = thinking("think-max=3", "6555555", "");
	ok(strcmp(t, "") == 0, "the prompt does not count");
	t = thinking("think-max=0", "62", "");
	ok(strcmp(t, "73") == 0, "none at all: %s", t);
	t = thinking("think-max=0", "627", "555");
	ok(strcmp(t, "") == 0, "a block that the prompt closed");
	t = thinking("think-max=2", "", "65557");
	ok(strcmp(t, "") == 0, "closed by itself");
	t = thinking("think-max=2", "", "6557556");
	ok(strcmp(t, "273") == 0, "opened again: %s", t);
}

static void
refuse(const char *opts, const char *why)
{
	struct qwen_sampler *s;
	struct qwen_err err = { 0 };

	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	ok((qwen_sampler_read(s, opts, &err) < 0 ||
	    qwen_sampler_check(s, &err) < 0 ||
	    qwen_sampler_begin(s, N, &err) < 0) && strstr(err.msg, why),
	    "%s", err.msg);
	qwen_sampler_free(s);
}

static void
test_chain(void)
{
	static const char text[] = "chain=top-k,temp stop=%20%25%0a%c3%bc=x "
	    "stop=b logit-bias=1=2 top-k=3 temp=0.7";
	struct qwen_sampler *s;
	char buf[200];

	/* 0.3 and 0.25 of 0.85 are 0.647; of all they are 0.55 */
	check_subset("temp=1 top-k=4 top-p=0.64 chain=top-k,top-p,temp", "",
	    "06", 1);
	check_subset("temp=1 top-k=4 top-p=0.64 chain=top-p,top-k,temp", "",
	    "026", 1);
	/* after the temperature the best two have 0.58 */
	check_subset("temp=0.5 top-p=0.6 chain=temp,top-p", "", "06", 2);
	check_subset("temp=0.5 top-p=0.6", "", "026", 2);
	check_subset("top-k=3 chain=top-k", "", "026", 1);
	check_subset("greedy=1 top-k=3 chain=top-k", "", "0", 1);
	check_subset("presence-penalty=1 temp=1 chain=temp,penalties", "",
	    "01234567", 1);
	refuse("chain=top-k,no-such", "no-such");
	refuse("chain=", "unknown method");
	refuse("chain=top-k,top-k", "twice");
	refuse("chain=top-k,greedy", "greedy");
	refuse("chain=stop", "stop");
	refuse("chain=top-k top-p=0.5", "top-p is set");
	refuse("stop=", "0 bytes");
	refuse("stop=%2", "%");
	refuse("stop=%00", "%");
	refuse("logit-bias=1", "ID=NUMBER");
	refuse("logit-bias=-1=1", "ID=NUMBER");
	refuse("logit-bias=1=nan", "ID=NUMBER");
	refuse("logit-bias=8=1", "outside");
	refuse("stop=a", "texts of tokens");
	s = sampler(text);
	qwen_sampler_describe(s, buf, sizeof buf);
	ok(strcmp(buf, text) == 0, "%s", buf);
	ok(qwen_sampler_needs_pieces(s), "stop needs texts");
	qwen_sampler_free(s);
	s = sampler("logit-bias=0=-inf logit-bias=1=-inf logit-bias=2=-inf "
	    "logit-bias=3=-inf logit-bias=4=-inf logit-bias=5=-inf "
	    "logit-bias=6=-inf logit-bias=7=-inf");
	ok(choose(s, 0) == -1, "nothing left to choose is an error");
	qwen_sampler_free(s);
}

int
main(void)
{
	test_cuts();
	test_edits();
	test_dry();
	test_dry_prompt();
	test_dry_long();
	test_mirostat();
	test_stop();
	test_think();
	test_chain();
	return done_testing();
}
