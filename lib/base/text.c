/* SPDX-License-Identifier: ISC */
/* text.c - growing strings, and lists of strings. */
#define _GNU_SOURCE	/* vasprintf */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/utf8.h"

/* Makes room for n more bytes and a NUL. */
static int
reserve(struct qwen_text *t, size_t n)
{
	size_t want;

	if (!t->failed && (qwen_add(t->n, n, &want) < 0 ||
	    qwen_add(want, 1, &want) < 0 ||
	    qwen_grow(&t->s, &t->cap, want, 1) < 0))
		t->failed = 1;
	return t->failed ? -1 : 0;
}

void
qwen_text_add(struct qwen_text *t, const void *s, size_t n)
{
	if (reserve(t, n) < 0)
		return;
	if (n > 0)
		memcpy(t->s + t->n, s, n);
	t->n += n;
	t->s[t->n] = '\0';
}

void
qwen_text_str(struct qwen_text *t, const char *s)
{
	qwen_text_add(t, s, strlen(s));
}

void
qwen_text_fmt(struct qwen_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		t->failed = 1;
	if (n < 0 || reserve(t, (size_t)n) < 0)
		return;
	va_start(ap, fmt);
	vsnprintf(t->s + t->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	t->n += (size_t)n;
}

void
qwen_text_json(struct qwen_text *t, const char *s, size_t n)
{
	char out[QWEN_JSON_CHAR];
	size_t i, used;

	qwen_text_add(t, "\"", 1);
	for (i = 0; i < n; i += used)
		qwen_text_add(t, out, qwen_json_char(s + i, n - i, &used, out));
	qwen_text_add(t, "\"", 1);
}

void
qwen_text_fini(struct qwen_text *t)
{
	free(t->s);
	memset(t, 0, sizeof *t);
}

char *
qwen_format(const char *fmt, ...)
{
	va_list ap;
	char *s;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return n < 0 ? NULL : s;
}

int
qwen_strings_add(struct qwen_strings *l, char *s)
{
	if (s == NULL || qwen_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v) < 0) {
		free(s);
		return -1;
	}
	l->v[l->n++] = s;
	return 0;
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void
qwen_strings_sort(struct qwen_strings *l)
{
	if (l->n > 0)
		qsort(l->v, l->n, sizeof *l->v, compare);
}

void
qwen_strings_fini(struct qwen_strings *l)
{
	while (l->n > 0)
		free(l->v[--l->n]);
	free(l->v);
	memset(l, 0, sizeof *l);
}

int
qwen_digits(const char **s, uint64_t *out)
{
	const char *p = *s;

	for (*out = 0; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(*out, 10u, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*p - '0'), out))
			return -1;
	}
	if (p == *s)
		return -1;
	*s = p;
	return 0;
}
