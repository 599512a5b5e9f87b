/* SPDX-License-Identifier: ISC */
/* cut.c - text as it comes, up to where one of some other texts begins. */
#include <stdlib.h>
#include <string.h>

#include "cli/batch.h"
#include "cli/internal.h"

struct cli_cut {
	struct qwen_str	*stop;
	size_t		 n;
	struct cli_text	 text;		/* what was held back, and what came */
	size_t		 given;		/* of it, the last time */
};

struct cli_cut *
cli_cut_new(void)
{
	struct cli_cut *c = calloc(1, sizeof *c);

	if (c == NULL)
		die("out of memory");
	return c;
}

void
cli_cut_free(struct cli_cut *c)
{
	if (c == NULL)
		return;
	cli_text_fini(&c->text);
	free(c->stop);
	free(c);
}

void
cli_cut_add(struct cli_cut *c, const char *stop)
{
	struct qwen_str *more = realloc(c->stop, (c->n + 1) * sizeof *more);

	if (more == NULL)
		die("out of memory");
	c->stop = more;
	c->stop[c->n].s = stop;
	c->stop[c->n++].len = strlen(stop);
}

/* Where the first of the texts begins, or n. */
static size_t
find(const struct cli_cut *c, const char *s, size_t n)
{
	size_t i, at;

	for (at = 0; at < n; at++) {
		for (i = 0; i < c->n; i++) {
			if (c->stop[i].len <= n - at && memcmp(s + at,
			    c->stop[i].s, c->stop[i].len) == 0)
				return at;
		}
	}
	return n;
}

/* Where, at the end, one of them may have begun; or n. */
static size_t
may_begin(const struct cli_cut *c, const char *s, size_t n)
{
	size_t i, len, at = n;

	for (i = 0; i < c->n; i++) {
		len = c->stop[i].len - 1 < n ? c->stop[i].len - 1 : n;
		for (; len > n - at; len--) {
			if (memcmp(s + n - len, c->stop[i].s, len) == 0)
				at = n - len;
		}
	}
	return at;
}

struct qwen_str
cli_cut_feed(struct cli_cut *c, const struct qwen_str *s, int look, int *found)
{
	struct cli_text *t = &c->text;

	if (t->n > 0)
		memmove(t->s, t->s + c->given, t->n - c->given);
	t->n -= c->given;
	cli_text_add(t, s->s, s->len);
	c->given = look ? find(c, t->s, t->n) : t->n;
	*found = c->given < t->n;
	if (!*found)
		c->given = may_begin(c, t->s, t->n);
	return (struct qwen_str){ t->s, c->given };
}

struct qwen_str
cli_cut_end(struct cli_cut *c)
{
	struct cli_text *t = &c->text;
	struct qwen_str rest = { t->s + c->given, t->n - c->given };

	if (t->n == 0)
		rest.s = "";
	t->n = c->given = 0;
	return rest;
}
