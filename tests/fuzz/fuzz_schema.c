/* SPDX-License-Identifier: ISC */
/*
 * fuzz_schema.c - any schema: it is refused with a reason, or makes a grammar.
 * A walk through the grammar by its masks never gets stuck, and ends in JSON.
 *
 * Input: a number for the walk, then the schema.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar.h"
#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 256, STEPS = 300 };

/* A token for each byte. */
static const struct qwen_trie *
bytes(void)
{
	static struct qwen_trie *t;
	static uint32_t at[BYTES + 1];
	static char text[BYTES];
	struct qwen_pieces p = { .n = BYTES, .at = at, .bytes = text,
	    .think = -1, .unthink = -1 };
	int i;

	for (i = 0; i < BYTES && t == NULL; i++) {
		text[i] = (char)i;
		at[i + 1] = (uint32_t)i + 1;
	}
	if (t == NULL && qwen_trie_new(&t, &p, NULL) < 0)
		abort();
	return t;
}

static void
check(const char *text, size_t n)
{
	yyjson_doc *d = yyjson_read(text, n, YYJSON_READ_NUMBER_AS_RAW);

	if (d == NULL)
		abort();
	yyjson_doc_free(d);
}

/* A byte that may come: what closes, most of the time. */
static int
choose(const uint64_t *mask, uint32_t *rng)
{
	static const char close[] = "]}\"";
	int i, k, c;

	*rng = *rng * 1664525 + 1013904223;
	for (k = 0; k < 3 && *rng >> 30 != 0; k++) {
		if (mask[close[k] / 64] >> (close[k] % 64) & 1)
			return close[k];
	}
	for (i = 0; i < BYTES; i++) {
		c = (int)((*rng >> 16) + (unsigned)i) % BYTES;
		if (mask[c / 64] >> (c % 64) & 1)
			return c;
	}
	return -1;
}

static void
walk(struct qwen_match *m, uint32_t rng)
{
	static char text[STEPS];
	const uint64_t *mask;
	size_t n;
	int c;

	for (n = 0; n < STEPS; n++) {
		if (qwen_match_may_end(m))
			check(text, n);
		/* it may be too much to be followed */
		if ((mask = qwen_match_mask(m, NULL)) == NULL)
			return;
		if ((c = choose(mask, &rng)) < 0) {
			if (!qwen_match_may_end(m))
				abort();
			return;
		}
		text[n] = (char)c;
		if (qwen_match_feed(m, text + n, 1, NULL) != 1)
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qwen_grammar *g;
	struct qwen_match *m;
	struct qwen_err err = { 0 };

	if (size == 0)
		return 0;
	if (qwen_grammar_open_schema(&g, (const char *)data + 1, size - 1,
	    &err) < 0) {
		if (g != NULL || err.msg[0] == '\0')
			abort();
		return 0;
	}
	if (qwen_match_new(&m, g, bytes(), &err) == 0)
		walk(m, data[0]);
	qwen_match_free(m);
	qwen_grammar_close(g);
	return 0;
}
