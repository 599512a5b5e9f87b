/* SPDX-License-Identifier: ISC */
/*
 * lex.c - splits a template into text, tags, and the tokens inside tags.
 *
 * White space around tags is removed as in transformers: one line feed after a
 * block or comment, and the indentation before it; next to a minus sign, all
 * white space.
 */
#include <string.h>

#include "base/err.h"
#include "text/chat/chat.h"
#include "text/chat/lex.h"

void
qwen_chat_lex(struct chat_lexer *l, const char *source, size_t n)
{
	memset(l, 0, sizeof *l);
	l->p = source;
	l->end = source + n;
	/* drop one line feed at the end */
	if (n > 0 && l->end[-1] == '\n')
		l->end--;
	l->line = 1;
	l->line_start = 1;
	l->type = CHAT_T_END;
}

/* Advances to p, counting lines. */
static void
advance(struct chat_lexer *l, const char *p)
{
	for (; l->p < p; l->p++)
		l->line += *l->p == '\n';
}

static int
bad(struct chat_lexer *l, struct qwen_err *err, const char *what)
{
	return qwen_fail(err, QWEN_EFORMAT, "chat template, line %u: %s",
	    l->line, what);
}

static const char *
skip_space(const struct chat_lexer *l, const char *p)
{
	uint32_t c;
	size_t k;

	while (p < l->end) {
		k = qwen_chat_char(p, 0, (size_t)(l->end - p), &c);
		if (!qwen_chat_space(c))
			break;
		p += k;
	}
	return p;
}

/* -------------------------------------------------------------------- text */

/* Returns the position of the next tag from p on, or the end. */
static const char *
find_tag(const struct chat_lexer *l, const char *p)
{
	for (; p + 1 < l->end; p++) {
		if (*p == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
			return p;
	}
	return l->end;
}

/* Returns the end of the text from s to tag, without removed white space. */
static const char *
text_end(const struct chat_lexer *l, const char *s, const char *tag)
{
	struct chat_text t = { s, (size_t)(tag - s), NULL };
	const char *p = tag;

	if (tag == l->end)
		return tag;
	if (tag + 2 < l->end && tag[2] == '-')
		return s + qwen_chat_strip(NULL, &t, NULL, 2).n;
	if (tag[1] == '{' || (tag + 2 < l->end && tag[2] == '+'))
		return tag;
	while (p > s && p[-1] != '\n' && qwen_chat_space((unsigned char)p[-1]))
		p--;
	return (p == s && l->line_start) || (p > s && p[-1] == '\n') ? p : tag;
}

/* Removes white space after a tag with this sign before its end. */
static void
after_tag(struct chat_lexer *l, char sign, int block)
{
	const char *p = l->p;

	if (sign == '-')
		p = skip_space(l, p);
	else if (block && sign != '+' && p < l->end && *p == '\n')
		p++;
	l->line_start = p > l->p && p[-1] == '\n';
	advance(l, p);
}

static int
skip_comment(struct chat_lexer *l, struct qwen_err *err)
{
	const char *p = l->p + 2;

	while (p + 1 < l->end && !(p[0] == '#' && p[1] == '}'))
		p++;
	if (p + 1 >= l->end)
		return bad(l, err, "unterminated comment");
	advance(l, p + 2);
	after_tag(l, p[-1], 1);
	return 0;
}

/*
 * Parses {%- name -%} at p.  Returns its end, or NULL; *sign: the sign before
 * the end.
 */
static const char *
word_tag(const struct chat_lexer *l, const char *p, const char *name,
    char *sign)
{
	size_t n = strlen(name);

	p += 2;
	if (p < l->end && (*p == '-' || *p == '+'))
		p++;
	p = skip_space(l, p);
	if ((size_t)(l->end - p) < n || memcmp(p, name, n) != 0)
		return NULL;
	p = skip_space(l, p + n);
	*sign = p < l->end && (*p == '-' || *p == '+') ? *p++ : 0;
	return l->end - p >= 2 && p[0] == '%' && p[1] == '}' ? p + 2 : NULL;
}

/* Parses text from p, after {% raw %}, up to {% endraw %}. */
static int
raw_text(struct chat_lexer *l, struct qwen_err *err, const char *p, char sign)
{
	const char *s = sign == '-' ? skip_space(l, p) : p, *tag = s, *end;

	for (; tag + 1 < l->end; tag++) {
		if (tag[0] != '{' || tag[1] != '%' ||
		    (end = word_tag(l, tag, "endraw", &sign)) == NULL)
			continue;
		l->type = CHAT_T_DATA;
		l->s = s;
		/* for lstrip_blocks it does not begin a line */
		l->line_start = 0;
		l->n = (size_t)(text_end(l, s, tag) - s);
		advance(l, end);
		after_tag(l, sign, 1);
		return 0;
	}
	return bad(l, err, "unterminated raw block");
}

/* Returns text, the beginning of a tag, or the end. */
static int
next_outside(struct chat_lexer *l, struct qwen_err *err)
{
	const char *s, *tag, *raw;
	char sign;

	for (;;) {
		s = l->p;
		tag = find_tag(l, s);
		l->at = l->line;
		l->s = s;
		l->n = (size_t)(text_end(l, s, tag) - s);
		advance(l, tag);
		if (l->n > 0) {
			l->type = CHAT_T_DATA;
			l->line_start = 0;
			return 0;
		}
		l->line_start = 0;
		if (tag == l->end) {
			l->type = CHAT_T_END;
			return 0;
		}
		if (tag[1] != '#')
			break;
		if (skip_comment(l, err) < 0)
			return -1;
	}
	if (tag[1] == '%' && (raw = word_tag(l, tag, "raw", &sign)) != NULL)
		return raw_text(l, err, raw, sign);
	l->type = tag[1] == '{' ? CHAT_T_PRINT : CHAT_T_BLOCK;
	l->in_tag = (int)l->type;
	advance(l, tag + 2 + (tag + 2 < l->end &&
	    (tag[2] == '-' || tag[2] == '+')));
	return 0;
}

/* ------------------------------------------------------------- inside a tag */

/* Returns 1 at the end of the tag, and advances past it. */
static int
tag_end(struct chat_lexer *l)
{
	const char *p = l->p;
	char first = l->in_tag == CHAT_T_PRINT ? '}' : '%', sign = 0;

	if (l->n_open > 0)
		return 0;
	if (p < l->end && (*p == '-' || (*p == '+' && first == '%')))
		sign = *p++;
	if (p + 1 >= l->end || p[0] != first || p[1] != '}')
		return 0;
	l->type = first == '%' ? CHAT_T_BLOCK_END : CHAT_T_PRINT_END;
	advance(l, p + 2);
	l->in_tag = 0;
	after_tag(l, sign, first == '%');
	return 1;
}

static int
string(struct chat_lexer *l, struct qwen_err *err)
{
	const char *p = l->p + 1;

	for (; p < l->end && *p != *l->p; p++) {
		if (*p == '\\' && p + 1 < l->end)
			p++;
	}
	if (p >= l->end)
		return bad(l, err, "unterminated string");
	l->type = CHAT_T_STRING;
	l->s = l->p + 1;
	l->n = (size_t)(p - l->s);
	advance(l, p + 1);
	return 0;
}

static const char *
skip_digits(const struct chat_lexer *l, const char *p)
{
	while (p < l->end && *p >= '0' && *p <= '9')
		p++;
	return p;
}

/* An integer, or a number with a fraction or an exponent. */
static void
number(struct chat_lexer *l)
{
	const char *p = l->p, *more;

	l->type = CHAT_T_INT;
	while (p < l->end && ((*p >= '0' && *p <= '9') || *p == '_'))
		p++;
	if (p < l->end && *p == '.' &&
	    (more = skip_digits(l, p + 1)) > p + 1) {
		l->type = CHAT_T_FLOAT;
		p = more;
	}
	if (p + 1 < l->end && (*p == 'e' || *p == 'E')) {
		more = p + 1 + (p[1] == '+' || p[1] == '-');
		if (skip_digits(l, more) > more) {
			l->type = CHAT_T_FLOAT;
			p = skip_digits(l, more);
		}
	}
	l->s = l->p;
	l->n = (size_t)(p - l->p);
	advance(l, p);
}

/* Brackets must be closed in order, so that the end of a tag is known. */
static int
bracket(struct chat_lexer *l, struct qwen_err *err)
{
	char c = *l->p;

	if (c == '(' || c == '[' || c == '{') {
		if (l->n_open == sizeof l->open)
			return bad(l, err, "too many brackets");
		l->open[l->n_open++] = c == '(' ? ')' : c == '[' ? ']' : '}';
	} else if (c == ')' || c == ']' || c == '}') {
		if (l->n_open == 0 || l->open[--l->n_open] != c)
			return bad(l, err, "unmatched closing bracket");
	}
	return 0;
}

static int
sign(struct chat_lexer *l, struct qwen_err *err)
{
	static const char two[][3] = { "==", "!=", "<=", ">=", "//", "**" };
	size_t i;

	l->type = CHAT_T_SIGN;
	l->s = l->p;
	l->n = 1;
	for (i = 0; i < sizeof two / sizeof *two; i++) {
		if (l->p + 1 < l->end && memcmp(l->p, two[i], 2) == 0)
			l->n = 2;
	}
	if (l->n == 1 && (*l->p == '\0' ||
	    strchr("+-*/%~|.,:()[]{}=<>", *l->p) == NULL))
		return bad(l, err, "unexpected character");
	if (bracket(l, err) < 0)
		return -1;
	advance(l, l->p + l->n);
	return 0;
}

int
qwen_chat_next(struct chat_lexer *l, struct qwen_err *err)
{
	const char *p;

	if (!l->in_tag)
		return next_outside(l, err);
	advance(l, skip_space(l, l->p));
	l->at = l->line;
	if (l->p >= l->end)
		return bad(l, err, "unterminated tag");
	if (tag_end(l))
		return 0;
	if (*l->p == '"' || *l->p == '\'')
		return string(l, err);
	if (*l->p >= '0' && *l->p <= '9') {
		number(l);
		return 0;
	}
	if (!chat_is_word(*l->p))
		return sign(l, err);
	for (p = l->p; p < l->end && chat_is_word(*p); p++)
		;
	l->type = CHAT_T_NAME;
	l->s = l->p;
	l->n = (size_t)(p - l->p);
	if (l->n > CHAT_WORD_MAX)
		return bad(l, err, "name too long");
	advance(l, p);
	return 0;
}
