/* SPDX-License-Identifier: ISC */
/* hint.c - which option an unknown option may mean. */
#include <string.h>

#include "base/near.h"
#include "cli/internal.h"

/*
 * Option names of other programs, and this project's names for them in all
 * tools.  Hints for a single tool are in its own table.
 */
static const struct cli_foreign names[] = {
	{ "chat-template", "template" }, { "concurrency", "max-sequences" },
	{ "context-length", "context" }, { "ctx-size", "context" },
	{ "json", "format" }, { "max-new-tokens", "count" },
	{ "max-tokens", "count" }, { "n-predict", "count" },
	{ "n-tokens", "count" }, { "num-predict", "count" },
	{ "parallel", "max-sequences" }, { "reasoning", "think" },
	{ "repetition-penalty", "repeat-penalty" }, { "schema", "json-schema" },
	{ "system-prompt", "system" }, { "temperature", "temp" },
	{ "top-logprobs", "top" }, { NULL, NULL },
};

static const char *
find(const struct cli_foreign *f, const char *name, size_t n)
{
	for (; f != NULL && f->name != NULL; f++) {
		if (strlen(f->name) == n && memcmp(f->name, name, n) == 0)
			return f->hint;
	}
	return NULL;
}

const char *
cli_our_name(const char *name, size_t n)
{
	return find(names, name, n);
}

const char *
cli_foreign(const char *name, size_t n)
{
	return find(cli_this_tool()->foreign, name, n);
}

const char *
cli_nearest(const char *word, const char *(*name)(size_t i))
{
	const char *s, *best = NULL;
	size_t n = strlen(word), i;
	int d, least = qwen_near_enough(n);

	for (i = 0; (s = name(i)) != NULL; i++) {
		d = qwen_near(word, n, s);
		if (d < least) {
			least = d;
			best = s;
		}
	}
	return best;
}

const char *
cli_hint(const char *word)
{
	static char hint[QWEN_NEAR_MAX + 8];
	size_t n = strcspn(word, "="), i;
	const char *same = cli_our_name(word, n), *told = cli_foreign(word, n);
	const struct cli_opt *o, *best = NULL;
	int d, nearest = qwen_near_enough(n);

	if (told != NULL)
		return told;
	for (i = 0; (o = cli_opt_row(i)) != NULL; i++) {
		if (o->name == NULL)
			continue;
		d = same != NULL && strcmp(o->name, same) == 0 ? -1 :
		    qwen_near(word, n, o->name);
		/* a short name is near to every word */
		if (d < nearest && d < (int)strlen(o->name)) {
			nearest = d;
			best = o;
		}
	}
	if (best == NULL)
		return NULL;
	if (nearest < 0)
		return cli_opt_name(best);
	snprintf(hint, sizeof hint, "--%.*s", QWEN_NEAR_MAX, best->name);
	return hint;
}
