/* SPDX-License-Identifier: ISC */
/* text.c - text that grows, and JSON in it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/batch.h"
#include "cli/internal.h"

static void
reserve(struct cli_text *t, size_t n)
{
	size_t cap;
	char *p;

	if (n < t->cap - t->n && t->s != NULL)
		return;
	if (n > SIZE_MAX / 4 - t->n)
		die("out of memory");
	cap = (t->n + n) * 3 / 2 + 64;
	if ((p = realloc(t->s, cap)) == NULL)
		die("out of memory");
	t->s = p;
	t->cap = cap;
}

void
cli_text_add(struct cli_text *t, const char *s, size_t n)
{
	reserve(t, n);
	if (n > 0)
		memcpy(t->s + t->n, s, n);
	t->n += n;
	t->s[t->n] = '\0';
}

void
cli_text_str(struct cli_text *t, const char *s)
{
	cli_text_add(t, s, strlen(s));
}

void
cli_text_fmt(struct cli_text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	reserve(t, 128);
	va_start(ap, fmt);
	n = vsnprintf(t->s + t->n, t->cap - t->n, fmt, ap);
	va_end(ap);
	if (n < 0)
		die("out of memory");
	if ((size_t)n >= t->cap - t->n) {
		reserve(t, (size_t)n);
		va_start(ap, fmt);
		vsnprintf(t->s + t->n, t->cap - t->n, fmt, ap);
		va_end(ap);
	}
	t->n += (size_t)n;
}

/* What JSON does not let stand as it is. */
static void
escape(struct cli_text *t, unsigned char c)
{
	switch (c) {
	case '"':
	case '\\':
		cli_text_fmt(t, "\\%c", c);
		break;
	case '\n':
		cli_text_str(t, "\\n");
		break;
	case '\t':
		cli_text_str(t, "\\t");
		break;
	case '\r':
		cli_text_str(t, "\\r");
		break;
	default:
		cli_text_fmt(t, "\\u%04x", c);
	}
}

void
cli_text_json(struct cli_text *t, const char *text, size_t n)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t i, len;

	cli_text_add(t, "\"", 1);
	for (i = 0; i < n; i += len) {
		if ((len = cli_utf8(s + i, n - i)) == 0) {
			cli_text_str(t, "\xef\xbf\xbd");
			len = 1;
		} else if (s[i] < 0x20 || s[i] == 0x7f || s[i] == '"' ||
		    s[i] == '\\')
			escape(t, s[i]);
		else
			cli_text_add(t, text + i, len);
	}
	cli_text_add(t, "\"", 1);
}

void
cli_text_fini(struct cli_text *t)
{
	free(t->s);
	memset(t, 0, sizeof *t);
}
