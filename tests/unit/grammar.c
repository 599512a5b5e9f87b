/* SPDX-License-Identifier: ISC */
/*
 * grammar.c - accepted texts, refused grammars, and masks of tokens that agree
 * with feeding each token: the cases of grammar.test.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "text/grammar/grammar.h"
#include "engine/sample/sample.h"
#include "../cases.h"
#include "../tap.h"

enum { N = 700 };

static struct qwen_pieces pieces;
static struct qwen_trie *trie;

static uint64_t rng = 7;

static uint32_t
rnd(void)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rng >> 33);
}

/* All bytes, and texts of what the grammars below have; the last three none. */
static void
make_pieces(void)
{
	static const char from[] = "ab{}[]\":,0123 \n\\.-eutrfalsn\xc3\xbc\xe2\x82\xac";
	static uint32_t at[N + 1];
	static char bytes[N * 8];
	static int32_t eog[] = { N - 1 };
	size_t n = 0, i, k;

	for (i = 0; i < N; i++) {
		size_t len = i < 256 ? 1 : i < N - 3 ? 2 + rnd() % 5 : 0;

		for (k = 0; k < len; k++)
			bytes[n++] = i < 256 ? (char)i :
			    from[rnd() % (sizeof from - 1)];
		at[i + 1] = (uint32_t)n;
	}
	pieces = (struct qwen_pieces){ .n = N, .at = at, .bytes = bytes,
	    .eog = eog, .n_eog = 1, .think = N - 3, .unthink = N - 2 };
}

static struct qwen_match *
match_of(const char *text, struct qwen_grammar **g)
{
	struct qwen_match *m;
	struct qwen_err err;

	if (qwen_grammar_open(g, text, strlen(text), &err) < 0 ||
	    qwen_match_new(&m, *g, trie, &err) < 0) {
		printf("# %s: %s\n", text, err.msg);
		abort();
	}
	return m;
}

/* 1 if the whole text is of the grammar. */
static int
takes(const char *grammar, const char *text, size_t n)
{
	struct qwen_grammar *g;
	struct qwen_match *m = match_of(grammar, &g);
	struct qwen_err err;
	int rc = qwen_match_feed(m, text, n, &err);

	rc = rc > 0 && qwen_match_may_end(m);
	qwen_match_free(m);
	qwen_grammar_close(g);
	return rc;
}

static void
test_texts(const char *grammar, const struct test_case *c)
{
	int i, bad = 0;

	for (i = 0; i < c->n; i++) {
		const struct qwen_text *t = &c->l[i].text;

		if (strcmp(c->l[i].key, "takes") == 0)
			bad += !takes(grammar, t->s, t->n);
		if (strcmp(c->l[i].key, "refuses") == 0)
			bad += takes(grammar, t->s, t->n);
	}
	ok(bad == 0, "%.*s", (int)strcspn(grammar, "\n"), grammar);
}

static void
test_bad(const char *text, const char *why)
{
	struct qwen_grammar *g;
	struct qwen_err err = { 0 };

	ok(qwen_grammar_open(&g, text, strlen(text), &err) < 0 && g == NULL &&
	    strstr(err.msg, why) != NULL, "%s", err.msg);
}

static void
test_noise(void)
{
	static char noise[4000];
	size_t i;

	for (i = 0; i + 1 < sizeof noise; i++)
		noise[i] = (char)(rnd() % 255 + 1);
	test_bad(noise, "line");
}

/* Walk by random allowed tokens; at each step all tokens are tried. */
static void
test_mask(const char *grammar)
{
	struct qwen_grammar *g;
	struct qwen_match *m = match_of(grammar, &g);
	const uint64_t *mask;
	struct qwen_err err;
	int steps, bad = 0, n;
	int32_t id, chosen;

	for (steps = 0; steps < 300; steps++) {
		if ((mask = qwen_match_mask(m, &err)) == NULL)
			break;
		for (id = 0, chosen = -1, n = 0; id < N; id++) {
			struct qwen_str s = qwen_piece(&pieces, id);
			int in = mask[id / 64] >> (id % 64) & 1;

			bad += in != (s.len > 0 && qwen_match_fits(m, s.s,
			    s.len, &err) == 1);
			if (in && rnd() % (unsigned)++n == 0)
				chosen = id;
		}
		if (chosen < 0 || (qwen_match_may_end(m) && rnd() % 4 == 0)) {
			bad += !qwen_match_may_end(m);
			qwen_match_begin(m, &err);
			continue;
		}
		bad += qwen_match_feed(m, qwen_piece(&pieces, chosen).s,
		    qwen_piece(&pieces, chosen).len, &err) != 1;
	}
	ok(steps == 300 && bad == 0, "the mask of %.*s",
	    (int)strcspn(grammar, "\n"), grammar);
	qwen_match_free(m);
	qwen_grammar_close(g);
}

/*
 * One of so many texts that a mask meets more sets than there is room for: their
 * tokens are numbers, and so is what the grammar has.
 */
static void
test_many(void)
{
	enum { MANY = 100000 };
	static uint32_t at[MANY + 1];
	static char bytes[MANY * 5 + 1];
	struct qwen_pieces p = { .n = MANY, .at = at, .bytes = bytes,
	    .think = -1, .unthink = -1 };
	struct qwen_text text = { 0 };
	struct qwen_grammar *g;
	struct qwen_trie *t;
	struct qwen_match *m, *other;
	struct qwen_err err;
	const uint64_t *mask;
	int i, k, bad = 0;

	qwen_text_str(&text, "root ::= \".\"");
	for (i = 0; i < MANY; i++) {
		at[i + 1] = at[i] + (uint32_t)sprintf(bytes + at[i], "%d", i);
		qwen_text_fmt(&text, " | \"%d\"", i);
	}
	if (qwen_grammar_open(&g, text.s, text.n, &err) < 0 ||
	    qwen_trie_new(&t, &p, &err) < 0 ||
	    qwen_match_new(&m, g, t, &err) < 0 ||
	    qwen_match_new(&other, g, t, &err) < 0)
		abort();
	for (k = 0; k < 6; k++) {
		mask = qwen_match_mask(m, &err);
		if (k % 2 == 0)	/* again, and it is the one that is kept */
			mask = qwen_match_mask(m, &err);
		for (i = 0; i < MANY; i++) {
			struct qwen_str s = qwen_piece(&p, i);

			bad += (mask[i / 64] >> (i % 64) & 1) !=
			    (unsigned)qwen_match_fits(other, s.s, s.len, &err);
		}
		bad += qwen_match_feed(m, "1", 1, &err) != (k < 5) ||
		    qwen_match_feed(other, "1", 1, &err) != (k < 5);
	}
	ok(bad == 0, "one of %d texts, of as many tokens", MANY);
	qwen_match_free(m);
	qwen_match_free(other);
	qwen_trie_free(t);
	qwen_grammar_close(g);
	qwen_text_fini(&text);
}

/* A sampler with random logits, its text; n_think tokens are thought. */
static size_t
generate(const char *grammar, const char *opts, int thinks, uint64_t seed,
    char *text, size_t size)
{
	struct qwen_grammar *g;
	struct qwen_sampler *s;
	struct qwen_err err;
	static float row[N];
	int32_t id = pieces.think;
	size_t i, n = 0;
	int k, inside = thinks;

	if (qwen_grammar_open(&g, grammar, strlen(grammar), &err) < 0 ||
	    qwen_sampler_new(&s, &err) < 0 ||
	    qwen_sampler_read(s, opts, &err) < 0)
		abort();
	qwen_sampler_pieces(s, &pieces);
	qwen_sampler_constrain(s, qwen_grammar_constraint(g, trie));
	if (qwen_sampler_begin(s, N, &err) < 0)
		abort();
	if (thinks)
		qwen_sampler_accept(s, &id, 1, 0, &err);
	text[0] = '\0';
	rng = seed;
	for (i = 0; i < 400 && n + 8 < size; i++) {
		for (k = 0; k < N; k++)
			row[k] = (float)(rnd() % 1000) / 200;
		if (!thinks)
			row[pieces.think] = -50;
		/* brackets that close, and ends, so that there is one */
		row['}'] = row[']'] = row['"'] = row[N - 1] = 9;
		if (inside)
			row[i > 5 ? pieces.unthink : N - 1] = 50;
		if (qwen_sampler_sample(s, row, NULL, N, i, &id, &err) < 0 ||
		    qwen_sampler_accept(s, &id, 1, 1, &err) < 0) {
			printf("# %s\n", err.msg);
			break;
		}
		/* a thought does not end the reply */
		if (id == N - 1)
			break;
		if (!inside && qwen_piece(&pieces, id).len > 0) {
			memcpy(text + n, qwen_piece(&pieces, id).s,
			    qwen_piece(&pieces, id).len);
			n += qwen_piece(&pieces, id).len;
			text[n] = '\0';
		}
		inside = inside && id != pieces.unthink;
	}
	if (inside)
		n = (size_t)snprintf(text, size, "ended in a thought");
	qwen_sampler_free(s);
	qwen_grammar_close(g);
	return i;
}

static void
test_sampler(const char *grammar)
{
	static char text[4000];
	const char *start;
	int k, bad = 0, done = 0, used = 0;
	size_t n;

	for (k = 0; k < 40; k++) {
		n = generate(grammar, k % 2 ? "temp=1 top-p=0.95" : "", k % 4 > 1,
		    (uint64_t)k, text, sizeof text);
		used += n > 1;
		if (n == 400)
			continue;
		done++;
		/* new lines between a thought and the reply do not count */
		start = text + (k % 4 > 1 ? strspn(text, "\n") : 0);
		if (!takes(grammar, start, strlen(start))) {
			printf("# %s\n", text);
			bad++;
		}
	}
	ok(bad == 0 && done > 20 && used > 20,
	    "%d replies of %d that ended are of the grammar", done - bad, done);
}

/* What cannot be followed ends in an error; what can, takes its time once. */
static void
follow(const char *text, const char *why)
{
	struct qwen_grammar *g;
	struct qwen_match *m;
	struct qwen_err err = { 0 };
	int steps, failed;

	failed = qwen_grammar_open(&g, text, strlen(text), &err) < 0 ||
	    qwen_match_new(&m, g, trie, &err) < 0;
	for (steps = 0; steps < 60 && !failed; steps++)
		failed = qwen_match_mask(m, &err) == NULL ||
		    qwen_match_feed(m, steps % 3 ? "a" : "b", 1, &err) < 0;
	ok(why[0] == '\0' ? !failed : failed && strstr(err.msg, why) != NULL,
	    "%.60s: %d steps, %s", text, steps, failed ? err.msg : "no end");
	if (g != NULL && (steps > 0 || !failed))
		qwen_match_free(m);
	qwen_grammar_close(g);
}

static void
run_case(const struct test_case *c)
{
	struct qwen_text grammar = case_build(c, "grammar");

	if (case_get(c, "follow") != NULL)
		follow(grammar.s, case_str(c, "error"));
	else if (case_get(c, "error") != NULL)
		test_bad(grammar.s, case_str(c, "error"));
	if (case_get(c, "takes") != NULL || case_get(c, "refuses") != NULL)
		test_texts(grammar.s, c);
	if (case_get(c, "mask") != NULL)
		test_mask(grammar.s);
	if (case_get(c, "sample") != NULL)
		test_sampler(grammar.s);
	qwen_text_fini(&grammar);
}

/*
 * Seconds to open a chain of rules, each of which may be what the one before or
 * after it is.
 */
static double
open_chain(int after)
{
	enum { RULES = 4000, TEXTS = 240 };
	struct qwen_text t = { 0 };
	struct qwen_grammar *g;
	struct qwen_err err;
	clock_t begin;
	int i, k;

	qwen_text_str(&t, "root ::= \"x\"\n");
	for (i = 0; i < RULES; i++) {
		qwen_text_fmt(&t, "r%d ::= ", i);
		for (k = 0; k < TEXTS; k++)
			qwen_text_fmt(&t, "\"%c\" | ", 'a' + k % 26);
		if (i == (after ? RULES - 1 : 0))
			qwen_text_str(&t, "\"\"\n");
		else
			qwen_text_fmt(&t, "r%d\n", after ? i + 1 : i - 1);
	}
	begin = clock();
	if (t.failed || qwen_grammar_open(&g, t.s, t.n, &err) < 0)
		abort();
	qwen_grammar_close(g);
	qwen_text_fini(&t);
	return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

/* To find which rules may be empty is not more work for one order of them. */
static void
test_chains(void)
{
	double one = open_chain(0), other = open_chain(1);

	ok(other < 5 * one + 0.2, "4,000 rules in a chain: %.2f s and %.2f s",
	    one, other);
}

int
main(void)
{
	static const char words[] = " grammar times each end takes refuses mask "
	    "sample follow error ";
	struct test_case c = { .n = 0 };
	FILE *f = case_open("unit/grammar.test");
	struct qwen_err err;

	make_pieces();
	if (qwen_trie_new(&trie, &pieces, &err) < 0)
		return 1;
	while (case_next(&c, f, words))
		run_case(&c);
	fclose(f);
	test_noise();
	test_many();
	test_chains();
	qwen_trie_free(trie);
	return done_testing();
}
