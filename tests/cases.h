/* SPDX-License-Identifier: ISC */
/*
 * cases.h - reads test cases from a text file of blocks:
 *
 *	# a comment
 *	schema {"type":"integer"}
 *	takes 12
 *	refuses 1.5
 *
 * A line is a keyword, a space, and a text without escapes.  After a keyword
 * that ends in $, the text has the escapes \n \t \r \\ and \xHH.  A line that
 * begins with a tab adds a line feed and its text to the line before.  Blocks
 * are separated by empty lines.  The head of each file explains its keywords.
 */
#ifndef CASES_H
#define CASES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { CASE_LINES = 64 };

struct case_line {
	char		 key[16];
	struct qwen_text text;
};

struct test_case {
	struct case_line l[CASE_LINES];
	int		 n;
};

static inline void
case_fini(struct test_case *c)
{
	while (c->n > 0)
		qwen_text_fini(&c->l[--c->n].text);
}

static inline void
case_bad(const char *line)
{
	fprintf(stderr, "no line of a case: %s\n", line);
	exit(1);
}

static inline void
case_unescape(struct qwen_text *t, const char *s)
{
	static const char letters[] = "ntr\\", means[] = "\n\t\r\\";
	const char *p;
	unsigned c;
	char one;

	for (; *s != '\0'; s++) {
		one = *s;
		if (one == '\\' && s[1] == 'x' && sscanf(s + 2, "%2x", &c) == 1) {
			one = (char)c;
			s += 3;
		} else if (one == '\\') {
			if (s[1] == '\0' || (p = strchr(letters, s[1])) == NULL)
				case_bad(s);
			one = means[p - letters];
			s++;
		}
		qwen_text_add(t, &one, 1);
	}
}

/* Parse a line; words: the valid keywords, each between spaces. */
static inline void
case_line(struct test_case *c, const char *words, char *line)
{
	struct case_line *l = &c->l[c->n];
	size_t n = strcspn(line, " ");
	int escaped = n > 0 && line[n - 1] == '$';
	const char *text = line[n] == ' ' ? line + n + 1 : line + n;

	if (line[0] == '\t' && c->n > 0) {
		qwen_text_add(&l[-1].text, "\n", 1);
		qwen_text_str(&l[-1].text, line + 1);
		return;
	}
	if (n == 0 || n + 3 > sizeof l->key || c->n == CASE_LINES)
		case_bad(line);
	memset(l, 0, sizeof *l);
	snprintf(l->key, sizeof l->key, " %.*s ", (int)n - escaped, line);
	if (strstr(words, l->key) == NULL)
		case_bad(line);
	snprintf(l->key, sizeof l->key, "%.*s", (int)n - escaped, line);
	if (escaped)
		case_unescape(&l->text, text);
	else
		qwen_text_str(&l->text, text);
	c->n++;
}

/*
 * Read the next block in place of *c; return 0 at the end of the file. words:
 * the valid keywords, each between spaces.
 */
static inline int
case_next(struct test_case *c, FILE *f, const char *words)
{
	static char *line;
	static size_t cap;
	ssize_t n;

	case_fini(c);
	while ((n = getline(&line, &cap, f)) > 0) {
		if (line[n - 1] == '\n')
			line[--n] = '\0';
		if (n == 0 && c->n > 0)
			break;
		if (n > 0 && line[0] != '#')
			case_line(c, words, line);
	}
	return c->n > 0;
}

/* Return the text of the first line with this keyword, or NULL. */
static inline const struct qwen_text *
case_get(const struct test_case *c, const char *key)
{
	int i;

	for (i = 0; i < c->n; i++) {
		if (strcmp(c->l[i].key, key) == 0)
			return &c->l[i].text;
	}
	return NULL;
}

/* The same, but "" instead of NULL. */
static inline const char *
case_str(const struct test_case *c, const char *key)
{
	const struct qwen_text *t = case_get(c, key);

	return t != NULL ? t->s : "";
}

/*
 * Return the text of a keyword, followed by "each" repeated "times" times, with
 * the repetition's number in place of @, followed by "end".
 */
static inline struct qwen_text
case_build(const struct test_case *c, const char *key)
{
	const struct qwen_text *begin = case_get(c, key);
	const char *each = case_str(c, "each"), *mark = strchr(each, '@');
	struct qwen_text t = { 0 };
	size_t i, n = strtoul(case_str(c, "times"), NULL, 10);

	qwen_text_add(&t, begin->s, begin->n);
	for (i = 0; i < n; i++) {
		if (mark == NULL)
			qwen_text_str(&t, each);
		else
			qwen_text_fmt(&t, "%.*s%zu%s", (int)(mark - each),
			    each, i, mark + 1);
	}
	qwen_text_str(&t, case_str(c, "end"));
	if (t.failed)
		abort();
	return t;
}

/* Open tests/NAME of the source tree. */
static inline FILE *
case_open(const char *name)
{
	const char *top = getenv("TOP");
	char path[512];
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/%s", top != NULL ? top : ".",
	    name);
	if ((f = fopen(path, "r")) == NULL) {
		perror(path);
		exit(1);
	}
	return f;
}

#endif
