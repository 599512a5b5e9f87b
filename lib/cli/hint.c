/* SPDX-License-Identifier: ISC */
/* hint.c - which option may have been meant by one that is not there. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/internal.h"

enum { LONGEST = 40 };

/* What other programs call it, and what it is called here. */
static const struct {
	const char *foreign, *ours;
} names[] = {
	{ "chat-template", "template" }, { "concurrency", "max-sequences" },
	{ "context-length", "context" }, { "ctx-size", "context" },
	{ "json", "format" }, { "max-new-tokens", "count" },
	{ "max-tokens", "count" }, { "n-predict", "count" },
	{ "n-tokens", "count" }, { "num-predict", "count" },
	{ "parallel", "max-sequences" }, { "reasoning", "think" },
	{ "repetition-penalty", "repeat-penalty" }, { "schema", "json-schema" },
	{ "system-prompt", "system" }, { "temperature", "temp" },
	{ "top-logprobs", "top" },
};

static int
least(int a, int b)
{
	return a < b ? a : b;
}

/* Letters to change, add, drop or swap with the next to make b of a. */
static int
distance(const char *a, size_t n, const char *b)
{
	int d[LONGEST + 1][LONGEST + 1];
	size_t m = strlen(b), i, j;

	if (n > LONGEST || m > LONGEST)
		return LONGEST;
	for (i = 0; i <= n; i++) {
		for (j = 0; j <= m; j++) {
			if (i == 0 || j == 0) {
				d[i][j] = (int)(i + j);
				continue;
			}
			d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1,
			    d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	}
	return d[n][m];
}

static const char *
ours(const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strlen(names[i].foreign) == n &&
		    memcmp(names[i].foreign, name, n) == 0)
			return names[i].ours;
	}
	return NULL;
}

const char *
cli_hint(const char *word)
{
	static char hint[LONGEST + 8];
	size_t n = strcspn(word, "="), i;
	const char *same = ours(word, n);
	const struct cli_opt *o, *best = NULL;
	int d, nearest = least((int)n / 3 + 1, 4);

	for (i = 0; (o = cli_opt_row(i)) != NULL; i++) {
		if (o->name == NULL)
			continue;
		d = same != NULL && strcmp(o->name, same) == 0 ? -1 :
		    distance(word, n, o->name);
		/* what has few letters is near to everything */
		if (d < nearest && d < (int)strlen(o->name)) {
			nearest = d;
			best = o;
		}
	}
	if (best == NULL)
		return NULL;
	if (nearest < 0)
		return cli_opt_name(best);
	snprintf(hint, sizeof hint, "--%.*s", LONGEST, best->name);
	return hint;
}
