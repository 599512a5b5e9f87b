/* SPDX-License-Identifier: ISC */
/*
 * call_value.c - finds the end of a parameter's value.  A value may be any
 * text, including tags, and models forget tags.  So a tag ends a value only if
 * the call continues, or ends, after it.
 */
#include <string.h>

#include "text/chat/reply.h"

/* What may come next, a set. */
enum {
	END = 1,		/* the end of the reply */
	PARAMETER = 2,
	DECLARED = 4,		/* a parameter of the tool without a value so
				   far */
	FUNCTION_END = 8, CALL_END = 16,
	CALL = 32, FUNCTION = 64,
	PARAMETER_END = 256,
	CLOSED = 128,		/* after the last end tag, also another call or
				   the end of the reply */
};

static const char end_parameter[] = "</parameter>";

static const struct {
	const char	*tag;
	unsigned	 what;
} tags[] = {
	{ end_parameter, PARAMETER_END }, { "<parameter=", PARAMETER | DECLARED },
	{ "</function>", FUNCTION_END }, { "</tool_call>", CALL_END },
	{ "<function=", FUNCTION }, { "<tool_call>", CALL },
};

enum { N_TAGS = sizeof tags / sizeof *tags };

/*
 * Returns 1 if s begins with the name of a DECLARED parameter, 0 if not, -1 if
 * not known.
 */
static int
declared(const struct qwen_reply *r, const char *s, size_t n)
{
	const struct chat_call *c = &r->call;
	size_t i;

	for (i = 0; i < n && s[i] != '>'; i++) {
		if (s[i] == '<' || s[i] == '\n' || i == CHAT_NAME_MAX)
			return 0;
	}
	if (i == n)
		return -1;
	return qwen_chat_parameter(c->tool, s, i) != NULL &&
	    yyjson_mut_obj_getn(yyjson_mut_doc_get_root(c->args), s, i) ==
	    NULL && !(strlen(c->param) == i && memcmp(c->param, s, i) == 0);
}

static int tail(const struct qwen_reply *r, size_t at, int final,
    unsigned what);

/* A wanted tag ends at offset at: checks what follows it. */
static int
found(const struct qwen_reply *r, unsigned tag, size_t at, int final,
    unsigned what)
{
	const char *s = r->text.s + at;
	size_t n = r->text.len - at;

	if (tag == FUNCTION)
		return qwen_chat_tool_begins(r, s, n);
	if ((tag & DECLARED) != 0 && (what & PARAMETER) == 0)
		return declared(r, s, n);
	if (tag == FUNCTION_END && (what & CLOSED) != 0)
		return tail(r, at, final, CALL_END | CALL | END | CLOSED);
	if (tag == CALL_END && (what & CLOSED) != 0)
		return tail(r, at, final, CALL | END);
	return 1;
}

/*
 * Returns 1 if white space at offset at is followed by one of the set what; 0
 * if not; -1 if not known, which cannot be if final.
 */
static int
tail(const struct qwen_reply *r, size_t at, int final, unsigned what)
{
	size_t i, end = at + CHAT_SPACE_MAX;
	int is, unknown = 0;

	for (; at < r->text.len && chat_is_blank(r->text.s[at]); at++) {
		if (at == end)
			return 0;
	}
	if (at == r->text.len)
		return !final ? -1 : !r->cut && (what & END) != 0;
	for (i = 0; i < N_TAGS; i++) {
		if ((tags[i].what & what) == 0)
			continue;
		is = chat_begins(r->text.s + at, r->text.len - at,
		    tags[i].tag);
		if (is > 0)
			is = found(r, tags[i].what, at + strlen(tags[i].tag),
			    final, what);
		if (is > 0)
			return 1;
		unknown |= is < 0;
	}
	return unknown && !final ? -1 : 0;
}

/* ------------------------------------------------------------------- values */

/*
 * Returns 1 if only white space precedes p on its line, which begins at *start.
 */
static int
begins_line(const struct qwen_reply *r, size_t p, size_t *start)
{
	const struct chat_call *c = &r->call;
	const char *s = r->text.s;
	size_t i = p;

	while (i > c->begin && p - i < CHAT_SPACE_MAX &&
	    (s[i - 1] == ' ' || s[i - 1] == '\t'))
		i--;
	*start = i;
	return i == c->begin ? c->on_lines != 0 : s[i - 1] == '\n';
}

/* Returns the end of a value before a line, without the line end. */
static size_t
before_line(const struct qwen_reply *r, size_t start)
{
	const struct chat_call *c = &r->call;

	if (start > c->begin)
		start--;
	if (start > c->begin && c->on_lines == 2 &&
	    r->text.s[start - 1] == '\r')
		start--;
	return start;
}

/* The template's syntax: the end tag on its own line, or else the first one. */
static int
exact_end(struct qwen_reply *r, size_t p, int final, size_t *end)
{
	struct chat_call *c = &r->call;
	size_t after = p + sizeof end_parameter - 1;
	int is = chat_begins(r->text.s + p, r->text.len - p,
	    end_parameter);

	if (is <= 0)
		return is;
	if (c->on_lines) {
		if (p > c->begin && r->text.s[p - 1] != '\n')
			return 0;
		if (after == r->text.len && !final)
			return -1;
		if (after < r->text.len && r->text.s[after] != '\n')
			return 0;
	}
	*end = c->on_lines && p > c->begin ? p - 1 : p;
	c->at = after;
	return 1;
}

/*
 * Returns 1 if the end tags of a function at offset at belong to the value,
 * since an end tag of a parameter follows them; else like tail.
 */
static int
is_inner(const struct qwen_reply *r, size_t at, int final)
{
	static const char *const end[] = { "</function>", "</tool_call>" };
	size_t i, k, stop;
	int is;

	for (i = k = 0; ; i++) {
		for (stop = at + CHAT_SPACE_MAX; at < r->text.len && at < stop &&
		    chat_is_blank(r->text.s[at]); )
			at++;
		if (i == 2)
			break;
		is = chat_begins(r->text.s + at, r->text.len - at, end[i]);
		if (is < 0 && !final)
			return -1;
		k += is > 0;
		at += is > 0 ? strlen(end[i]) : 0;
	}
	is = chat_begins(r->text.s + at, r->text.len - at, end_parameter);
	return is < 0 && final ? 0 : is != 0 && k > 0 ? is : 0;
}

/*
 * Checks an end tag of a parameter that ends at after: like tail; 2: ambiguous.
 */
static int
ends_parameter(struct qwen_reply *r, size_t after, int line, int final)
{
	struct chat_call *c = &r->call;
	unsigned what = END | FUNCTION_END | CALL_END | CALL | FUNCTION;
	int is;

	if (c->on_lines && !line)
		return tail(r, after, final, END | DECLARED | FUNCTION_END |
		    CALL_END | CLOSED);
	/* the value contains a call, as a text about calls does */
	if (c->n_open[0] > 0 && c->n_open[1] > 0)
		return 0;
	is = c->n_open[0] > 0 ? is_inner(r, after, final) : 0;
	if (is != 0)
		return is < 0 ? -1 : 0;
	/* twice the same tag: either part of the value or superfluous */
	is = tail(r, after, final, PARAMETER_END);
	if (is != 0)
		return is < 0 ? -1 : c->n_open_parameters > 0 ?
		    (c->n_open_parameters--, 0) : 2;
	return tail(r, after, final, what | (c->n_open[0] > 0 ? DECLARED :
	    PARAMETER));
}

/* Returns 1 if only white space of the value precedes p. */
static int
is_first(const struct qwen_reply *r, size_t p)
{
	while (p > r->call.begin && chat_is_blank(r->text.s[p - 1]))
		p--;
	return p == r->call.begin;
}

/*
 * Checks whether the tag at p ends the value; line: it begins a line.  Like
 * tail; 2: ambiguous.
 */
static int
ends(struct qwen_reply *r, size_t p, size_t i, int line, int final)
{
	struct chat_call *c = &r->call;
	size_t after = p + strlen(tags[i].tag);
	unsigned next = END | CLOSED | (line ? CALL | FUNCTION : 0);
	int is;

	switch (tags[i].what) {
	case PARAMETER_END:
		return ends_parameter(r, after, line, final);
	case PARAMETER | DECLARED:
		/* the tag of this parameter again */
		if (is_first(r, p) && chat_begins(r->text.s + after,
		    r->text.len - after, c->param) == 1 && r->text.len -
		    after > strlen(c->param) &&
		    r->text.s[after + strlen(c->param)] == '>')
			return 2;
		is = line || !c->on_lines ? declared(r, r->text.s + after,
		    r->text.len - after) : 0;
		c->n_open_parameters += is == 0 && line;
		return is > 0 && !line ? 2 : is;
	case FUNCTION: case CALL:
		c->n_open[tags[i].what == CALL] += line;
		return 0;
	default:
		if (c->n_open[tags[i].what == CALL_END] > 0) {
			c->n_open[tags[i].what == CALL_END] -= line;
			return 0;
		}
		return c->tool == NULL ? 0 : tail(r, after, final, next |
		    (tags[i].what == FUNCTION_END ? CALL_END : 0));
	}
}

/* Returns 1 if n bytes are the word with some adjacent letters missing. */
static int
is_damaged_word(const char *s, size_t n, const char *word)
{
	const size_t len = strlen(word);
	size_t i = 0;

	if (n >= 5 && memcmp(s, word, 5) == 0)
		return 1;
	while (i < n && i < len && s[i] == word[i])
		i++;
	return n >= 3 && n <= len && s[n - 1] == word[len - 1] &&
	    memcmp(s + i, word + len - (n - i), n - i) == 0;
}

/*
 * Returns 1 if the last line of a value is meant as its end tag but is
 * malformed.
 */
static int
is_half_ended(const struct qwen_reply *r, size_t end)
{
	const struct chat_call *c = &r->call;
	const char *s = r->text.s;
	size_t i = end, n, len = strlen(c->param);

	while (i > c->begin && chat_is_blank(s[i - 1]))
		i--;
	end = i;
	while (i > c->begin && s[i - 1] != '<' && s[i - 1] != '\n' &&
	    end - i <= CHAT_NAME_MAX)
		i--;
	n = end - i;
	if (n == 0 || (i > c->begin && s[i - 1] != '<' && s[i - 1] != '\n'))
		return 0;
	if (s[i] == '/' && n == len + 2 && s[end - 1] == '>' &&
	    memcmp(s + i + 1, c->param, len) == 0)
		return i > c->begin && s[i - 1] == '<';
	/* the tag lost its first characters, or its last one */
	if (s[i] != '/' && (n < 10 || memcmp(s + end - 10, "parameter>",
	    10) != 0))
		return 0;
	while (n > 0 && (*(s + i) == '/' || *(s + i) == '<')) {
		i++;
		n--;
	}
	n -= n > 0 && s[i + n - 1] == '>';
	return n > 3 && is_damaged_word(s + i, n, "parameter");
}

/* Returns 1 if a damaged tag of a call follows white space at offset at. */
static int
is_damaged_tag(const struct qwen_reply *r, size_t at, size_t end)
{
	static const char *const words[] = { "parameter", "function",
	    "tool_call" };
	const char *s = r->text.s;
	size_t i, n;

	at = chat_skip_blanks(s, end, at);
	if (at == end || s[at] != '<')
		return 0;
	for (i = 0; i < N_TAGS; i++) {
		if (end - at >= strlen(tags[i].tag) && memcmp(s + at,
		    tags[i].tag, strlen(tags[i].tag)) == 0)
			return 0;
	}
	while (at < end && (s[at] == '<' || s[at] == '/'))
		at++;
	for (n = 0; at + n < end && strchr("<>=\n", s[at + n]) == NULL; n++)
		;
	for (i = 0; i < 3; i++) {
		if (is_damaged_word(s + at, n, words[i]))
			return 1;
	}
	return 0;
}

/*
 * Returns 1 if a line of the value up to end is an end tag of a parameter that
 * does not begin in the value; 2 if a damaged tag follows it.
 */
static int
has_end(const struct qwen_reply *r, size_t end)
{
	const char *s = r->text.s + r->call.begin, *p = s, *stop = r->text.s +
	    end;
	const size_t n_end = sizeof end_parameter - 1, n_open = n_end - 2;
	size_t open = 0, start;
	int has = 0;

	for (; (p = memchr(p, '<', (size_t)(stop - p))) != NULL; p++) {
		if ((size_t)(stop - p) > n_open && memcmp(p, "<parameter",
		    n_open) == 0)
			open++;
		if ((size_t)(stop - p) <= n_end || memcmp(p, end_parameter,
		    n_end) != 0 || p[n_end] != '\n' || !begins_line(r,
		    (size_t)(p - r->text.s), &start))
			continue;
		if (open > 0)
			open--;
		else if (is_damaged_tag(r, (size_t)(p - r->text.s) + n_end,
		    end))
			return 2;
		else
			has = 1;
	}
	return has;
}

static int
loose_end(struct qwen_reply *r, size_t p, int final, size_t *end)
{
	struct chat_call *c = &r->call;
	size_t i, start;
	int is = 0, line;

	for (i = 0; i < N_TAGS && is == 0; i++)
		is = chat_begins(r->text.s + p, r->text.len - p,
		    tags[i].tag);
	if (is <= 0)
		return is;
	i--;
	line = begins_line(r, p, &start);
	is = ends(r, p, i, line, final);
	if (is != 1)
		return is;
	*end = line ? before_line(r, start) : p;
	c->indent = line ? p - start : 0;
	c->at = tags[i].what == PARAMETER_END ? p + sizeof end_parameter - 1 :
	    p;
	/* a malformed end tag such as </path> or </param> ended the value */
	if (tags[i].what != PARAMETER_END && is_half_ended(r, *end))
		return 2;
	is = has_end(r, *end);
	c->has_end_tag |= is == 1;
	return is == 2 ? 2 : 1;
}

int
qwen_chat_value(struct qwen_reply *r, int final, size_t *end)
{
	struct chat_call *c = &r->call;
	const char *s;
	int is;

	while ((s = memchr(r->text.s + c->at, '<', r->text.len - c->at)) !=
	    NULL) {
		c->at = (size_t)(s - r->text.s);
		is = r->opts.strict ? exact_end(r, c->at, final, end) :
		    loose_end(r, c->at, final, end);
		if (is > 0 || (is < 0 && !final))
			return is > 0 ? is : 0;
		c->at++;
	}
	c->at = r->text.len;
	return 0;
}

/* ------------------------------------------------------------------ layout */

/* Returns the length of the white space that all non-empty lines begin with. */
static size_t
common_indent(const char *s, size_t n)
{
	const char *first = NULL, *nl;
	size_t i, len, most = 0;

	for (; n > 0; s += len, n -= len) {
		nl = memchr(s, '\n', n);
		len = nl != NULL ? (size_t)(nl - s) + 1 : n;
		for (i = 0; i < len && (s[i] == ' ' || s[i] == '\t'); i++)
			;
		if (i == len || s[i] == '\n' || s[i] == '\r')
			continue;
		if (first == NULL) {
			first = s;
			most = i;
		}
		most = i < most ? i : most;
		for (i = 0; i < most && s[i] == first[i]; i++)
			;
		most = i;
	}
	return most;
}

int
qwen_chat_unindent(struct qwen_reply *r, size_t end, struct qwen_text *out)
{
	const struct chat_call *c = &r->call;
	const char *s = r->text.s + c->begin, *nl;
	size_t n = end - c->begin, len, skip, most;

	if (!c->on_lines || c->indent == 0 ||
	    (most = common_indent(s, n)) < c->indent)
		return 0;
	for (; n > 0; s += len, n -= len) {
		nl = memchr(s, '\n', n);
		len = nl != NULL ? (size_t)(nl - s) + 1 : n;
		for (skip = 0; skip < most && skip < len &&
		    (s[skip] == ' ' || s[skip] == '\t'); skip++)
			;
		qwen_text_add(out, s + skip, len - skip);
	}
	return 1;
}

size_t
qwen_chat_half_end(const char *s, size_t n, int on_lines)
{
	static const char end[] = "\n</parameter>";
	const char *x = on_lines ? end : end + 1;
	size_t len = strlen(x);

	for (len = len < n ? len : n; len > 0; len--) {
		if (memcmp(s + n - len, x, len) == 0)
			break;
	}
	return len;
}
