/* SPDX-License-Identifier: ISC */
/*
 * fix_json.c - converts JSON as models write it, and truncated JSON, to JSON.
 */
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "text/chat/reply.h"
#include "text/chat/tools.h"

enum { DEPTH_MAX = 200 };

struct json_fixer {
	struct qwen_text	*out;
	const char		*s;
	size_t			 n, at;
	int			 python;
	char			 last;		/* last token written */
	unsigned		 depth;
	unsigned char		 doubled[DEPTH_MAX];	/* brace is doubled, per
							   open bracket */
};

static int
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* ------------------------------------------------------------------ strings */

/* Writes a code point as a JSON escape; -1 if it is not valid. */
static int
put_code(struct json_fixer *l, uint32_t c)
{
	if (c > 0x10ffff)
		return -1;
	if (c < 0x10000)
		qwen_text_fmt(l->out, "\\u%04" PRIx32, c);
	else
		qwen_text_fmt(l->out, "\\u%04" PRIx32 "\\u%04" PRIx32,
		    0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
	return 0;
}

/* Converts \x41, \u0041 or \U00000041. */
static int
digits(struct json_fixer *l, size_t n)
{
	const char *s = l->s + l->at + 2;
	uint32_t c;

	if (l->n - l->at < n + 2) {	/* truncated: drop it */
		l->at = l->n;
		return 0;
	}
	l->at += n + 2;
	return qwen_hex_read(s, n, &c) < 0 ? -1 : put_code(l, c);
}

/* Converts an escape; -1 if it is not valid. */
static int
escape(struct json_fixer *l)
{
	static const char same[] = "\"\\/bfnrt", python[] = "av0";
	static const uint32_t code[] = { 7, 11, 0 };
	const char *p;
	char c;

	if (l->n - l->at < 2) {
		l->at = l->n;
		return 0;
	}
	c = l->s[l->at + 1];
	if (c == 'u')
		return digits(l, 4);
	if (l->python && c == 'U')
		return digits(l, 8);
	if (l->python && c == 'x')
		return digits(l, 2);
	l->at += 2;
	if (c != '\0' && strchr(same, c) != NULL)
		qwen_text_fmt(l->out, "\\%c", c);
	else if (c == '\'')
		qwen_text_str(l->out, "'");
	else if (!l->python || c == '\0')
		return -1;
	else if ((p = strchr(python, c)) != NULL)
		return put_code(l, code[p - python]);
	else if (c != '\n') {		/* unknown escape: keep the backslash,
					   as Python does */
		qwen_text_str(l->out, "\\\\");
		l->at--;
	}
	return 0;
}

/* Converts a string; a truncated one gets no closing quote. */
static int
string(struct json_fixer *l)
{
	char quote = l->s[l->at++], c;
	size_t from;

	qwen_text_str(l->out, "\"");
	while (l->at < l->n) {
		from = l->at;
		while (l->at < l->n && (c = l->s[l->at]) != quote &&
		    c != '\\' && c != '"' && (unsigned char)c >= 0x20)
			l->at++;
		qwen_text_add(l->out, l->s + from, l->at - from);
		if (l->at == l->n)
			return 1;
		c = l->s[l->at];
		if (c == quote) {
			l->at++;
			qwen_text_str(l->out, "\"");
			return 0;
		}
		if (c == '\\') {
			if (escape(l) < 0)
				return -1;
			continue;
		}
		if (c == '"')
			qwen_text_str(l->out, "\\\"");
		else
			qwen_text_fmt(l->out, "\\u%04x", (unsigned char)c);
		l->at++;
	}
	return 1;
}

/* ------------------------------------------------------------------- tokens */

static void
put_char(struct json_fixer *l, char c)
{
	qwen_text_add(l->out, &c, 1);
	if (!chat_is_blank(c))
		l->last = c;
}

/* An object cannot begin with a brace, so two braces count as one. */
static int
open_bracket(struct json_fixer *l, char c)
{
	int twice = c == '{' && l->at + 1 < l->n && l->s[l->at + 1] == '{';

	if (l->depth == DEPTH_MAX)
		return -1;
	l->doubled[l->depth++] = (unsigned char)twice;
	put_char(l, c);
	l->at += 1 + (size_t)twice;
	return 0;
}

static int
close_bracket(struct json_fixer *l, char c)
{
	if (l->depth == 0)
		return -1;
	put_char(l, c);
	l->at++;
	l->at += l->doubled[--l->depth] && c == '}' && l->at < l->n &&
	    l->s[l->at] == '}';
	return 0;
}

/* Drops a comma before the end of a list or an object. */
static void
comma(struct json_fixer *l)
{
	size_t i = chat_skip_blanks(l->s, l->n, ++l->at);

	if (i < l->n && (l->s[i] == '}' || l->s[i] == ']') &&
	    strchr("{[,", l->last) == NULL)
		return;
	put_char(l, ',');
}

static void
word(struct json_fixer *l)
{
	static const char *const names[][2] = {
		{ "True", "true" }, { "False", "false" }, { "None", "null" },
	};
	size_t from = l->at, n, i;

	while (l->at < l->n && is_letter(l->s[l->at]))
		l->at++;
	n = l->at - from;
	l->last = 'a';
	for (i = 0; i < 3; i++) {
		if (strlen(names[i][0]) == n &&
		    memcmp(l->s + from, names[i][0], n) == 0) {
			qwen_text_str(l->out, names[i][1]);
			return;
		}
	}
	qwen_text_add(l->out, l->s + from, n);
}

int
qwen_chat_fix_json(struct qwen_text *out, const char *s, size_t n, int python)
{
	struct json_fixer l = { .out = out, .s = s, .n = n, .python = python };
	int rc = 0;
	char c;

	while (rc == 0 && l.at < n) {
		c = s[l.at];
		if (c == '"' || (c == '\'' && python)) {
			rc = string(&l);
			l.last = '"';
		} else if (c == '{' || c == '[')
			rc = open_bracket(&l, c);
		else if (c == '}' || c == ']')
			rc = close_bracket(&l, c);
		else if (c == ',')
			comma(&l);
		else if (is_letter(c))
			word(&l);
		else {
			put_char(&l, c);
			l.at++;
		}
	}
	return rc < 0 ? -1 : rc > 0 || l.depth > 0;
}

/* --------------------------------------------------------------- truncation */

void
qwen_chat_close_json(struct qwen_text *out, const char *s, size_t n)
{
	char open[DEPTH_MAX];
	size_t i, safe = 0, depth = 0;
	int in_string = 0, escaped = 0, is_value = 1;

	for (i = 0; i < n; i++) {
		if (in_string) {
			if (!escaped && s[i] == '"') {
				in_string = 0;
				safe = is_value ? i + 1 : safe;
			}
			escaped = !escaped && s[i] == '\\';
		} else if (s[i] == '"')
			in_string = 1;
		else if (s[i] == ':')
			is_value = 1;
		else if (s[i] == ',') {
			safe = i;
			is_value = depth > 0 && open[depth - 1] == ']';
		} else if ((s[i] == '{' || s[i] == '[') && depth < DEPTH_MAX) {
			open[depth++] = s[i] == '{' ? '}' : ']';
			is_value = s[i] == '[';
			safe = i + 1;
		} else if ((s[i] == '}' || s[i] == ']') && depth > 0) {
			depth--;
			is_value = 1;
			safe = i + 1;
		}
	}
	qwen_text_add(out, s, safe);
	while (depth > 0)
		qwen_text_add(out, &open[--depth], 1);
}
