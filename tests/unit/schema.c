/* SPDX-License-Identifier: ISC */
/*
 * schema.c - texts that the grammars of JSON Schemas accept, and refused
 * schemas: the cases of schema.test.  -p prints the grammar of the schema on
 * stdin; -g SEED N prints N random texts of it.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar.h"
#include "text/schema/rules.h"
#include "../cases.h"
#include "../tap.h"

enum { N = 256 };

static struct qwen_pieces pieces;
static struct qwen_trie *trie;

/* A token for each byte. */
static void
make_pieces(void)
{
	static uint32_t at[N + 1];
	static char bytes[N];
	int i;

	for (i = 0; i < N; i++) {
		bytes[i] = (char)i;
		at[i + 1] = (uint32_t)i + 1;
	}
	pieces = (struct qwen_pieces){ .n = N, .at = at, .bytes = bytes,
	    .think = -1, .unthink = -1 };
}

static struct qwen_match *
match_of(const char *schema, size_t n, struct qwen_grammar **g)
{
	struct qwen_match *m;
	struct qwen_err err;

	if (qwen_grammar_open_schema(g, schema, n, &err) < 0) {
		printf("# %.*s: %s\n", (int)n, schema, err.msg);
		return NULL;
	}
	if (qwen_match_new(&m, *g, trie, &err) < 0) {
		printf("# %.*s: %s\n", (int)n, schema, err.msg);
		abort();
	}
	return m;
}

/* How many of the texts of a word are not as it says. */
static int
check(struct qwen_match *m, const struct test_case *c, const char *key,
    int want)
{
	struct qwen_err err;
	int i, got, bad = 0;

	for (i = 0; i < c->n; i++) {
		const struct qwen_text *t = &c->l[i].text;

		if (strcmp(c->l[i].key, key) != 0)
			continue;
		if (qwen_match_begin(m, &err) < 0)
			abort();
		got = qwen_match_feed(m, t->s, t->n, &err) > 0 &&
		    qwen_match_may_end(m);
		if (got != want)
			printf("# %s: %s\n", got ? "took" : "refused", t->s);
		bad += got != want;
	}
	return bad;
}

static void
run_case(const struct test_case *c)
{
	struct qwen_text schema = case_build(c, "schema");
	const char *why = case_get(c, "error") != NULL ? case_str(c, "error") :
	    NULL;
	struct qwen_grammar *g;
	struct qwen_match *m;
	struct qwen_err err = { 0 };
	int rc, bad;

	if (why != NULL || c->n == 1 || case_get(c, "times") != NULL) {
		rc = qwen_grammar_open_schema(&g, schema.s, schema.n, &err);
		ok(why == NULL ? rc == 0 : rc < 0 && g == NULL &&
		    strstr(err.msg, why) != NULL, "%.60s: %s", schema.s,
		    rc < 0 ? err.msg : "made");
		qwen_grammar_close(g);
	} else {
		m = match_of(schema.s, schema.n, &g);
		bad = m == NULL || check(m, c, "takes", 1) +
		    check(m, c, "refuses", 0) > 0;
		ok(!bad, "%.150s", schema.s);
		if (m != NULL)
			qwen_grammar_close(g);
		qwen_match_free(m);
	}
	qwen_text_fini(&schema);
}

/* ------------------------------------------------------- texts at random */

static uint64_t rng;

static uint32_t
rnd(void)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rng >> 33);
}

static int
allows(const uint64_t *mask, int c)
{
	return mask[c / 64] >> (c % 64) & 1;
}

/*
 * A byte: what closes, sooner or later, for else a text would be mostly one
 * string; or any, all kinds of them alike.
 */
static int
choose(const uint64_t *mask, size_t n)
{
	static const char close[] = "]}\"";
	int from, i, k, c;

	for (k = 0; k < 3 && (rnd() % 8 == 0 || n > 200); k++) {
		if (allows(mask, close[k]))
			return close[k];
	}
	from = (int)(rnd() % N);
	if (rnd() % 4)
		from = "a0,\"\\zZ-.t"[rnd() % 10];
	for (i = 0; i < N; i++) {
		c = (from + i) % N;
		if (allows(mask, c))
			return c;
	}
	return -1;
}

static int
generate(const char *schema, size_t len, uint64_t seed, int count)
{
	static char text[20000];
	struct qwen_grammar *g;
	struct qwen_match *m = match_of(schema, len, &g);
	const uint64_t *mask;
	struct qwen_err err;
	size_t n;
	int c;
	char byte;

	if (m == NULL)
		return 1;
	rng = seed;
	for (; count > 0; count--) {
		if (qwen_match_begin(m, &err) < 0)
			return 2;
		for (n = 0; n + 1 < sizeof text; n++) {
			if ((mask = qwen_match_mask(m, &err)) == NULL)
				return 2;
			c = choose(mask, n);
			if (c < 0 || (qwen_match_may_end(m) && rnd() % 4 == 0))
				break;
			byte = text[n] = (char)c;
			if (qwen_match_feed(m, &byte, 1, &err) != 1)
				return 2;
		}
		text[n] = '\0';
		if (n + 1 < sizeof text)
			printf("%s\n", text);
	}
	qwen_match_free(m);
	qwen_grammar_close(g);
	return 0;
}

static int
tool(int argc, char *argv[])
{
	static char text[1 << 20];
	size_t n = fread(text, 1, sizeof text, stdin), n_out;
	struct qwen_err err;
	char *out;

	if (argc == 4 && strcmp(argv[1], "-g") == 0)
		return generate(text, n, strtoull(argv[2], NULL, 10),
		    atoi(argv[3]));
	if (qwen_schema_gbnf(&out, &n_out, text, n,
	    &(struct qwen_schema_how){ .strict = 1 }, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	fwrite(out, 1, n_out, stdout);
	free(out);
	return 0;
}

int
main(int argc, char *argv[])
{
	struct qwen_err err;
	int rc;

	make_pieces();
	if (qwen_trie_new(&trie, &pieces, &err) < 0)
		return 1;
	if (argc > 1) {
		rc = tool(argc, argv);
	} else {
		static const char words[] =
		    " schema times each end takes refuses error ";
		FILE *f = case_open("unit/schema.test");
		struct test_case c = { .n = 0 };

		while (case_next(&c, f, words))
			run_case(&c);
		fclose(f);
		rc = done_testing();
	}
	qwen_trie_free(trie);
	return rc;
}
