/* SPDX-License-Identifier: ISC */
/* stop.c - searches a text for stop strings while it arrives. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/request/request.h"

struct qwen_stop_finder {
	struct qwen_str	*stop;
	size_t		 n, cap;
	struct qwen_text text;		/* text held back, then the new text */
	size_t		 given;		/* bytes of it returned by the last
					   call */
	size_t		 which;		/* index of the stop string that was
					   found */
	size_t		 n_ignored;	/* stop strings that end in this many
					   first bytes do not count */
};

int
qwen_stop_finder_new(struct qwen_stop_finder **out, struct qwen_err *err)
{
	*out = calloc(1, sizeof **out);
	return *out != NULL ? 0 : qwen_oom(err);
}

void
qwen_stop_finder_free(struct qwen_stop_finder *c)
{
	if (c == NULL)
		return;
	qwen_text_fini(&c->text);
	free(c->stop);
	free(c);
}

int
qwen_stop_finder_add(struct qwen_stop_finder *c, const char *stop, size_t n,
    struct qwen_err *err)
{
	if (qwen_grow(&c->stop, &c->cap, c->n + 1, sizeof *c->stop) < 0)
		return qwen_oom(err);
	c->stop[c->n++] = (struct qwen_str){ stop, n };
	return 0;
}

/* Returns where the first stop string begins, or n. */
static size_t
find_stop(struct qwen_stop_finder *c, const char *s, size_t n)
{
	size_t i, at, len;

	for (at = 0; at < n && c->n_ignored < n; at++) {
		for (i = 0; i < c->n; i++) {
			len = c->stop[i].len;
			if (len <= n - at && at + len > c->n_ignored &&
			    memcmp(s + at, c->stop[i].s, len) == 0) {
				c->which = i;
				return at;
			}
		}
	}
	return n;
}

/* Returns where the end of s may be the beginning of a stop string, or n. */
static size_t
may_begin(const struct qwen_stop_finder *c, const char *s, size_t n)
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

int
qwen_stop_finder_feed(struct qwen_stop_finder *c, struct qwen_str *s, int look,
    int *found, struct qwen_err *err)
{
	struct qwen_text *t = &c->text;

	if (t->n > 0)
		memmove(t->s, t->s + c->given, t->n - c->given);
	t->n -= c->given;
	c->n_ignored -= c->given < c->n_ignored ? c->given : c->n_ignored;
	c->given = 0;
	qwen_text_add(t, s->s, s->len);
	if (t->failed)
		return qwen_oom(err);
	if (!look)
		c->n_ignored = t->n;
	c->given = find_stop(c, t->s, t->n);
	*found = c->given < t->n;
	if (!*found)
		c->given = may_begin(c, t->s, t->n);
	*s = (struct qwen_str){ t->s, c->given };
	return 0;
}

struct qwen_str
qwen_stop_finder_end(struct qwen_stop_finder *c)
{
	struct qwen_text *t = &c->text;
	struct qwen_str rest = { t->s + c->given, t->n - c->given };

	if (t->n == 0)
		rest.s = "";
	t->n = c->given = c->n_ignored = 0;
	return rest;
}

size_t
qwen_stop_finder_which(const struct qwen_stop_finder *c)
{
	return c->which;
}
