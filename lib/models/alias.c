/* SPDX-License-Identifier: ISC */
/* alias.c - parses the user's aliases: lines "name = model [options]". */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "models/models.h"

static int
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/*
 * Returns the next word of a line without its quotes, for free(), and moves *s
 * after it.  A character `stop' ends the word, too.  Returns NULL at the end of
 * the line (err->code stays 0), or on errors.
 */
static char *
next_word(const char **s, const char *end, char stop, struct qwen_err *err)
{
	const char *p = *s;
	char *word, *to, quote = 0;

	while (p < end && is_blank(*p))
		p++;
	if (p == end || *p == '#')
		return NULL;
	if ((word = to = malloc((size_t)(end - p) + 1)) == NULL) {
		qwen_oom(err);
		return NULL;
	}
	for (; p < end; p++) {
		if (quote == 0 && (is_blank(*p) || *p == stop))
			break;
		if (*p == quote)
			quote = 0;
		else if (quote == 0 && (*p == '"' || *p == '\''))
			quote = *p;
		else
			*to++ = *p;
	}
	*to = '\0';
	*s = p;
	if (quote != 0) {
		free(word);
		qwen_fail(err, QWEN_EFORMAT, "missing closing quote");
		return NULL;
	}
	return word;
}

static void
fini(struct qwen_alias *a)
{
	while (a->n_options > 0)
		free(a->option[--a->n_options]);
	free(a->option);
	free(a->name);
	free(a->model);
}

/* Reads the words after "=": the model and its options. */
static int
parse_model(struct qwen_alias *a, const char *s, const char *end,
    struct qwen_err *err)
{
	size_t cap = 0;
	char *word;

	err->code = 0;
	a->model = next_word(&s, end, 0, err);
	if (a->model == NULL)
		return err->code != 0 ? -1 : qwen_fail(err, QWEN_EFORMAT,
		    "a path or a name must follow \"=\"");
	while ((word = next_word(&s, end, 0, err)) != NULL) {
		if (qwen_grow(&a->option, &cap, a->n_options + 2,
		    sizeof *a->option) < 0) {
			free(word);
			return qwen_oom(err);
		}
		a->option[a->n_options++] = word;
		a->option[a->n_options] = NULL;
	}
	return err->code != 0 ? -1 : 0;
}

/*
 * Reads a line: returns 1 if it has an alias, 0 if it is empty, -1 on errors.
 */
static int
parse_line(struct qwen_alias *a, const char *s, const char *end,
    struct qwen_err *err)
{
	memset(a, 0, sizeof *a);
	err->code = 0;
	if ((a->name = next_word(&s, end, '=', err)) == NULL)
		return err->code != 0 ? -1 : 0;
	while (s < end && is_blank(*s))
		s++;
	if (s == end || *s != '=' || a->name[0] == '\0')
		return qwen_fail(err, QWEN_EFORMAT,
		    "not \"name = model [options]\"");
	return parse_model(a, s + 1, end, err) < 0 ? -1 : 1;
}

const struct qwen_alias *
qwen_aliases_find(const struct qwen_aliases *a, const char *name)
{
	size_t i;

	for (i = 0; i < a->n; i++) {
		if (strcmp(a->v[i].name, name) == 0)
			return &a->v[i];
	}
	return NULL;
}

static int
add_alias(struct qwen_aliases *out, struct qwen_alias *a, struct qwen_err *err)
{
	const struct qwen_alias *same = qwen_aliases_find(out, a->name);

	if (same != NULL)
		return qwen_fail(err, QWEN_EFORMAT, "line %u defines the same "
		    "name", same->line);
	if (qwen_grow(&out->v, &out->cap, out->n + 1, sizeof *out->v) < 0)
		return qwen_oom(err);
	out->v[out->n++] = *a;
	return 0;
}

int
qwen_aliases_parse(struct qwen_aliases *out, const char *text, size_t n,
    struct qwen_err *err)
{
	const char *end = text + n, *line_end;
	struct qwen_err mine, *e = err != NULL ? err : &mine;
	struct qwen_alias a;
	unsigned line = 0;
	int got;

	memset(out, 0, sizeof *out);
	for (; text < end; text = line_end + 1) {
		line++;
		line_end = memchr(text, '\n', (size_t)(end - text));
		if (line_end == NULL)
			line_end = end;
		got = memchr(text, '\0', (size_t)(line_end - text)) != NULL ?
		    qwen_fail(e, QWEN_EFORMAT, "the file contains a NUL byte") :
		    1;
		if (got == 1)
			got = parse_line(&a, text, line_end, e);
		else
			memset(&a, 0, sizeof a);
		a.line = line;
		if (got == 1 && add_alias(out, &a, e) == 0)
			continue;
		fini(&a);
		if (got != 0) {
			qwen_aliases_fini(out);
			return qwen_fail_in(e, "line %u", line);
		}
	}
	return 0;
}

void
qwen_aliases_fini(struct qwen_aliases *a)
{
	while (a->n > 0)
		fini(&a->v[--a->n]);
	free(a->v);
	memset(a, 0, sizeof *a);
}
