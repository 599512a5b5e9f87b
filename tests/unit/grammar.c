/* SPDX-License-Identifier: ISC */
/*
 * grammar.c - which texts grammars take, which they refuse to be, and that the
 * mask of tokens says what feeding each of them would.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar.h"
#include "engine/sample/sample.h"
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

/* "a|bc": 1 if the whole text is of the grammar. */
static int
takes(const char *grammar, const char *text)
{
	struct qwen_grammar *g;
	struct qwen_match *m = match_of(grammar, &g);
	struct qwen_err err;
	int rc = qwen_match_feed(m, text, strlen(text), &err);

	rc = rc > 0 && qwen_match_may_end(m);
	qwen_match_free(m);
	qwen_grammar_close(g);
	return rc;
}

static void
check(const char *grammar, const char *yes, const char *no)
{
	int bad = 0;
	char one[200];
	size_t n;

	for (; *yes != '\0'; yes += n + (yes[n] != '\0')) {
		n = strcspn(yes, "|");
		snprintf(one, sizeof one, "%.*s", (int)n, yes);
		bad += !takes(grammar, one);
	}
	for (; *no != '\0'; no += n + (no[n] != '\0')) {
		n = strcspn(no, "|");
		snprintf(one, sizeof one, "%.*s", (int)n, no);
		bad += takes(grammar, one);
	}
	ok(bad == 0, "%.*s", (int)strcspn(grammar, "\n"), grammar);
}

#define JSON \
	"root ::= value\n" \
	"value ::= object | array | string | number | \"true\" | \"null\"\n" \
	"object ::= \"{\" ( pair (\",\" pair)* )? \"}\"\n" \
	"pair ::= string \":\" value\n" \
	"array ::= \"[\" ( value (\",\" value)* )? \"]\"\n" \
	"string ::= \"\\\"\" ( [^\"\\\\\\x00-\\x1f] | \"\\\\\" [\"\\\\n] )* \"\\\"\"\n" \
	"number ::= \"-\"? (\"0\" | [1-9] [0-9]*) (\".\" [0-9]+)?\n"

static void
test_texts(void)
{
	check("root ::= \"a\" | \"bc\"", "a|bc", "b|abc|c");
	check("root ::= \"a\"{2,4}", "aa|aaa|aaaa", "a|aaaaa");
	check("root ::= \"a\"{3}", "aaa", "aa|aaaa");
	check("root ::= \"a\"{2,}", "aa|aaaaaaaaaaaa", "a");
	check("root ::= \"a\"{0,2} \"b\"", "b|ab|aab", "aaab|a");
	check("root ::= (\"a\" | \"b\"+)? \"c\"", "c|ac|bbbc", "abc|a");
	check("root ::= [a-cx] [^a-c]", "ad|x1|c\xc3\xbc", "aa|dd|a\xc3");
	check("root ::= . \".\"", "a.|\xe2\x82\xac.|\xf0\x9f\x98\x80.",
	    "\xed\xa0\x80.|..." "|\xff.|\xc0\x80.");
	check("root ::= [\xc3\xa4-\xe2\x82\xac]", "\xc3\xbc|\xe2\x82\xac|\xe0\xa0\x80",
	    "\xc3\xa3|\xe2\x82\xad|a");
	check("root ::= \"\\x41\\u00fc\\n\"", "A\xc3\xbc\n", "A");
	check("root ::= x \"!\" # a comment\nx ::= y |\n  \"z\"\ny ::= \"y\"",
	    "y!|z!", "y|!");
	check("root ::= \"\" | (())", "", "a");
	ok(takes("root ::= ()", "") && takes("root ::= \"a\"*", ""), "nothing");
	check("root ::= (\"\" | \"a\"*)* \"b\"", "b|ab|aaaab", "ba");
	check("root ::= \"(\" root \")\" | \"x\"", "x|((x))", "((x)|x)");
	check("root ::= \"a\" root | \"b\"", "b|aaab", "aaa");
	check("root-1 ::= \"a\"\nroot ::= root-1 root_2\nroot_2 ::= \"b\"", "ab",
	    "a");
	check(JSON, "{}|[1,-2.5,{\"a\":[]}]|\"\\n\xc3\xbc\"|0|null",
	    "{|01|[1,]|\"\n\"|{\"a\"}|nul");
}

static void
refuse(const char *text, const char *why)
{
	struct qwen_grammar *g;
	struct qwen_err err = { 0 };

	ok(qwen_grammar_open(&g, text, strlen(text), &err) < 0 && g == NULL &&
	    strstr(err.msg, why) != NULL, "%s", err.msg);
}

static void
test_bad(void)
{
	static char deep[4000];
	size_t i;

	refuse("", "no rule root");
	refuse("x ::= \"a\"", "no rule root");
	refuse("root ::= y", "no rule y");
	refuse("root ::= \"a\nb\"", "line 1");
	refuse("root ::= \"a\"\nroot ::= \"b\"", "already");
	refuse("root ::= [a", "closed");
	refuse("root ::= []", "without");
	refuse("root ::= [b-a]", "before it begins");
	refuse("root ::= (\"a\"", "closed");
	refuse("root ::= \"a\")", "nothing opens");
	refuse("root ::= \"a\"{2", "closed");
	refuse("root ::= \"a\"{3,2}", "before it begins");
	refuse("root ::= \"a\"{99999999999}", "too large");
	refuse("root ::= \"a\"**", "brackets");
	refuse("root ::= \"\\q\"", "escape");
	refuse("root ::= \"\\ud800\"", "Unicode");
	refuse("root ::= \"\xff\"", "UTF-8");
	refuse("root ::= \"\xc0\x80\"", "UTF-8");
	refuse("root ::= *", "neither");
	refuse("root ::= root \"a\" | \"b\"", "left recursion");
	refuse("root ::= x \"a\"\nx ::= \"b\"? y\ny ::= z\nz ::= \"\" x", "left");
	refuse("root ::= (((\"a\"{1000}){1000}){1000}){1000}", "nodes");
	ok(takes("root ::= (((\"\"{1000000}){1000000}){1000000})", ""),
	    "a million times nothing");
	memset(deep, '(', sizeof deep - 1);
	memcpy(deep, "root ::= ", 9);
	refuse(deep, "nested");
	for (i = 0; i + 1 < sizeof deep; i++)
		deep[i] = (char)rnd();
	refuse(deep, "line");
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
	qwen_sampler_grammar(s, g, trie);
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
		if (inside && i > 5)
			row[pieces.unthink] = 50;
		if (qwen_sampler_sample(s, row, NULL, N, i, &id, &err) < 0 ||
		    qwen_sampler_accept(s, &id, 1, 1, &err) < 0) {
			printf("# %s\n", err.msg);
			break;
		}
		if (id == N - 1 && !inside)
			break;
		if (!inside && qwen_piece(&pieces, id).len > 0) {
			memcpy(text + n, qwen_piece(&pieces, id).s,
			    qwen_piece(&pieces, id).len);
			n += qwen_piece(&pieces, id).len;
			text[n] = '\0';
		}
		inside = inside && id != pieces.unthink;
	}
	qwen_sampler_free(s);
	qwen_grammar_close(g);
	return i;
}

static void
test_sampler(void)
{
	static char text[4000];
	const char *start;
	int k, bad = 0, done = 0, used = 0;
	size_t n;

	for (k = 0; k < 40; k++) {
		n = generate(JSON, k % 2 ? "temp=1 top-p=0.95" : "", k % 4 > 1,
		    (uint64_t)k, text, sizeof text);
		used += n > 1;
		if (n == 400)
			continue;
		done++;
		/* new lines between a thought and the reply do not count */
		start = text + (k % 4 > 1 ? strspn(text, "\n") : 0);
		if (!takes(JSON, start)) {
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
test_hostile(void)
{
	static char many[60000];
	size_t i, n;

	follow("root ::= [a-z]* \"a\" [a-z]{1000}", "");
	follow("root ::= [ab]* [ab] [ab]{3000}", "");
	follow("root ::= ([ab] | [ab] [ab]){0,2000} \".\"", "");
	follow("root ::= ((((([ab]*)*)*)*)*)* \".\"", "");
	follow("root ::= \"a\" root \"b\" | [ab] root \"c\" | \"b\" root \"a\" | "
	    "\".\"", "too ambiguous");
	follow("root ::= x* \".\"\nx ::= [ab] x? [ab] | [ab]", "");
	n = (size_t)snprintf(many, sizeof many, "root ::= (");
	for (i = 0; i < 5000; i++)
		n += (size_t)snprintf(many + n, sizeof many - n, "[ab]? ");
	snprintf(many + n, sizeof many - n, ")* \".\"");
	follow(many, "too ambiguous");
}

int
main(void)
{
	struct qwen_err err;

	make_pieces();
	if (qwen_trie_new(&trie, &pieces, &err) < 0)
		return 1;
	test_texts();
	test_bad();
	test_mask(JSON);
	test_mask("root ::= ([a-z]{1,3} \" \"?){2,5} \"\\n\"");
	test_mask("root ::= .{0,20} \"\xc3\xbc\" [^a-z]*");
	/* any character, for so long */
	test_mask("root ::= \"a\" [^\"\\\\\\x00-\\x1f]{0,70} \"\\n\"");
	test_mask("root ::= [^\"\\\\\\x00-\\x1f]{5,9} [a-z \xc3\xbc]{3,6} [^\\n]*");
	test_mask("root ::= ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [n\"])* \"\\\"\"");
	test_hostile();
	test_sampler();
	qwen_trie_free(trie);
	return done_testing();
}
