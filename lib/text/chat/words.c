/* SPDX-License-Identifier: ISC */
/*
 * words.c - functions on the characters of a text: case, classes, padding,
 * HTML; as methods of strings, filters and tests.
 */
#include <string.h>

#include "text/chat/casing.h"
#include "text/chat/chat.h"
#include "text/token/unicode.h"

/* Returns argument i as a text; fails if it has another type. */
static struct chat_text
text(const struct chat_builtin_call *c, size_t i, const char *key,
    const char *usual)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	if (v == NULL)
		return chat_literal(usual);
	if (v->type != CHAT_TEXT)
		chat_refuse(c, "an argument that is no string");
	return v->type == CHAT_TEXT ? v->u.s : chat_literal(usual);
}

/* ------------------------------------------------------------------- cases */

/* besides enum qwen_case */
enum { CAPITALIZE = 3, SWAP, HEADING };

/*
 * Returns 1 for characters that are ignored when looking for letters around a
 * sigma.
 */
static int
is_ignored(uint32_t c)
{
	return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' ||
	    c == 0xa8 || c == 0xad || c == 0xaf || c == 0xb4 || c == 0xb7 ||
	    c == 0xb8 || c == 0x2019 || c == 0x200b ||
	    (c >= 0x80 && qwen_unicode_class(c) == QWEN_CLASS_MARK);
}

/*
 * Returns 1 if the capital sigma at i (2 bytes) is the last letter of a word.
 */
static int
is_final(struct chat_exec *r, const struct chat_text *t, size_t i)
{
	size_t k = i, at;
	uint32_t u = 0;

	while (k > 0) {
		for (at = k - 1; at > 0 && k - at < 4 &&
		    ((unsigned char)t->s[at] & 0xc0) == 0x80; at--)
			;
		qwen_chat_char(t->s, at, k, &u);
		k = at;
		if (qwen_chat_step(r, 1) < 0 || !is_ignored(u))
			break;
	}
	if (i == 0 || qwen_case_kind(u) == QWEN_KIND_NONE)
		return 0;
	for (u = 0, k = i + 2; k < t->n; ) {
		k += qwen_chat_char(t->s, k, t->n, &u);
		if (qwen_chat_step(r, 1) < 0 || !is_ignored(u))
			break;
	}
	return qwen_case_kind(u) == QWEN_KIND_NONE || is_ignored(u);
}

/*
 * Returns the case for a character; cased: the character before it has a case.
 */
static enum qwen_case
case_of(int how, uint32_t u, size_t i, int cased, int begins)
{
	switch (how) {
	case CAPITALIZE:
		return i == 0 ? QWEN_CASE_TITLE : QWEN_CASE_LOWER;
	case SWAP:
		return qwen_case_kind(u) == QWEN_KIND_UPPER ?
		    QWEN_CASE_LOWER : QWEN_CASE_UPPER;
	case QWEN_CASE_TITLE:
		return cased ? QWEN_CASE_LOWER : QWEN_CASE_TITLE;
	case HEADING:
		return begins ? QWEN_CASE_UPPER : QWEN_CASE_LOWER;
	default:
		return (enum qwen_case)how;
	}
}

/* Converts the case of a text; each character keeps its origin. */
static struct chat_value
recase(struct chat_exec *r, const struct chat_text *t, int how)
{
	struct chat_buf b = { 0 };
	char out[QWEN_CASE_MAX];
	size_t i, k, n, done = 0;
	int cased = 0, begins = 1;
	enum qwen_case to;
	uint32_t u;

	qwen_chat_step(r, t->n);
	for (i = 0; i < t->n && !r->failed; i += k) {
		k = qwen_chat_char(t->s, i, t->n, &u);
		to = case_of(how, u, i, cased, begins);
		cased = qwen_case_kind(u) != QWEN_KIND_NONE;
		begins = qwen_chat_space(u) || (u < 0x80 && u != 0 &&
		    strchr("-({[<", (int)u) != NULL);
		if (k == 1 && u >= 0x80)
			continue;	/* invalid byte */
		n = qwen_case_write(u, to, out);
		if (u == 0x3a3 && to == QWEN_CASE_LOWER && is_final(r, t, i))
			memcpy(out, "\317\202", n = 2);
		if (n == k && memcmp(out, t->s + i, k) == 0)
			continue;
		qwen_chat_put_slice(r, &b, t, done, i);
		qwen_chat_put_like(r, &b, t, i, out, n);
		done = i + k;
	}
	qwen_chat_put_slice(r, &b, t, done, t->n);
	return qwen_chat_buf_value(r, &b);
}

struct chat_value
qwen_chat_lower(struct chat_exec *r, const struct chat_text *t)
{
	return recase(r, t, QWEN_CASE_LOWER);
}

static struct chat_value
f_case(const struct chat_builtin_call *c)
{
	struct chat_text t = qwen_chat_as_text(c);

	return recase(c->r, &t, c->variant);
}

/* ------------------------------------------------------ kinds of characters */

enum { ALPHA = 1, NUMERIC = 2, SPACE = 4, ASCII = 8 };

static int
kinds(uint32_t u)
{
	enum qwen_class k = u < 0x80 ?
	    (enum qwen_class)qwen_unicode_ascii[u] : qwen_unicode_class(u);

	return (k == QWEN_CLASS_LETTER ? ALPHA : 0) |
	    (k == QWEN_CLASS_NUMBER ? NUMERIC : 0) |
	    (qwen_chat_space(u) ? SPACE : 0) | (u < 0x80 ? ASCII : 0);
}

/*
 * Returns whether all characters are of these kinds and there is at least one.
 */
static struct chat_value
m_is(const struct chat_builtin_call *c)
{
	size_t i = 0;
	uint32_t u;

	qwen_chat_step(c->r, c->t->n / 4);
	while (i < c->t->n) {
		i += qwen_chat_char(c->t->s, i, c->t->n, &u);
		if ((kinds(u) & c->variant) == 0)
			return chat_bool(0);
	}
	return chat_bool(c->t->n > 0 || c->variant == ASCII);
}

/*
 * Returns whether all characters with a case have this case and there is at
 * least one.
 */
static struct chat_value
is_case(const struct chat_builtin_call *c)
{
	struct chat_text t = qwen_chat_as_text(c);
	enum qwen_case_kind k;
	size_t i = 0, n = 0;
	uint32_t u;

	qwen_chat_step(c->r, t.n);
	while (i < t.n) {
		i += qwen_chat_char(t.s, i, t.n, &u);
		k = qwen_case_kind(u);
		if (k != QWEN_KIND_NONE && (int)k != c->variant)
			return chat_bool(0);
		n += k != QWEN_KIND_NONE;
	}
	return chat_bool(n > 0);
}

static struct chat_value
f_wordcount(const struct chat_builtin_call *c)
{
	struct chat_text t = qwen_chat_as_text(c);
	int64_t n = 0;
	int inside = 0, word;
	size_t i = 0;
	uint32_t u;

	qwen_chat_step(c->r, t.n / 4);
	for (; i < t.n; inside = word) {
		i += qwen_chat_char(t.s, i, t.n, &u);
		word = u == '_' || (kinds(u) & (ALPHA | NUMERIC)) != 0;
		n += word && !inside;
	}
	return chat_int(n);
}

/* ------------------------------------------------------------------ padding */

enum { LEFT, RIGHT, CENTER };	/* alignment of the text */

static struct chat_value
pad(const struct chat_builtin_call *c, const struct chat_text *t, int64_t width,
    const struct chat_text *fill)
{
	int64_t n = (int64_t)qwen_chat_chars(c->r, t->s, t->n), more, left;
	struct chat_buf b = { 0 };

	if (n >= width || c->r->failed)
		return chat_text(*t);
	more = width - n;
	left = c->variant == LEFT ? 0 : c->variant == RIGHT ? more :
	    more / 2 + (more & width & 1);
	qwen_chat_put_times(c->r, &b, fill, left);
	qwen_chat_put(c->r, &b, t);
	qwen_chat_put_times(c->r, &b, fill, more - left);
	return qwen_chat_buf_value(c->r, &b);
}

static struct chat_value
m_pad(const struct chat_builtin_call *c)
{
	struct chat_text fill = text(c, 1, "fillchar", " ");
	int64_t width = qwen_chat_whole(c, 0, "width", -1);

	if (c->a->n < 1 || qwen_chat_chars(c->r, fill.s, fill.n) != 1)
		return chat_refuse(c, "a width that is missing, or a filler that "
		    "is not one character");
	return pad(c, c->t, width, &fill);
}

static struct chat_value
f_center(const struct chat_builtin_call *c)
{
	struct chat_text t = qwen_chat_as_text(c), fill = chat_literal(" ");

	return pad(c, &t, qwen_chat_whole(c, 0, "width", 80), &fill);
}

/* Pads with zeros after the sign. */
static struct chat_value
m_zfill(const struct chat_builtin_call *c)
{
	int64_t n = (int64_t)qwen_chat_chars(c->r, c->t->s, c->t->n);
	int64_t width = qwen_chat_whole(c, 0, "width", -1);
	size_t sign = c->t->n > 0 && (c->t->s[0] == '-' || c->t->s[0] == '+');
	struct chat_text zero = chat_literal("0");
	struct chat_buf b = { 0 };

	qwen_chat_put_slice(c->r, &b, c->t, 0, sign);
	qwen_chat_put_times(c->r, &b, &zero, width - n);
	qwen_chat_put_slice(c->r, &b, c->t, sign, c->t->n);
	return qwen_chat_buf_value(c->r, &b);
}

static struct chat_value
f_truncate(const struct chat_builtin_call *c)
{
	int64_t length = qwen_chat_whole(c, 0, "length", 255);
	struct chat_text end = text(c, 2, "end", "...");
	struct chat_text t = qwen_chat_as_text(c);
	int64_t leeway = qwen_chat_whole(c, 3, "leeway", 5);
	int64_t n_end = (int64_t)qwen_chat_chars(c->r, end.s, end.n);
	int64_t n = (int64_t)qwen_chat_chars(c->r, t.s, t.n);
	size_t at;

	if (length < n_end || leeway < 0)
		return chat_refuse(c, "truncate to less than its end, or with a "
		    "leeway below 0");
	if (n <= length || n - length <= leeway)
		return chat_text(t);
	t = chat_slice(&t, 0, qwen_chat_offset(c->r, &t,
	    (size_t)(length - n_end)));
	if (!qwen_chat_flag(c, 1, "killwords")) {
		for (at = t.n; at > 0 && t.s[at - 1] != ' '; at--)
			;
		t.n = at > 0 ? at - 1 : t.n;
	}
	return qwen_chat_join(c->r, &t, &end);
}

/* ---------------------------------------------------------------- partition */

static struct chat_value
m_partition(const struct chat_builtin_call *c)
{
	struct chat_text sep = text(c, 0, "sep", "");
	struct chat_value none = chat_cstr("");
	struct chat_value v[3] = { none, none, none };
	const struct chat_text *t = c->t;
	size_t at;

	if (sep.n == 0 || c->a->n != 1)
		return chat_refuse(c, "a partition at nothing");
	at = c->variant == LEFT ? qwen_chat_search(c->r, t, &sep, 0) :
	    qwen_chat_search_back(c->r, t, &sep, t->n);
	if (at > t->n)
		v[c->variant == LEFT ? 0 : 2] = chat_text(*t);
	else {
		v[0] = chat_text(chat_slice(t, 0, at));
		v[1] = chat_text(chat_slice(t, at, at + sep.n));
		v[2] = chat_text(chat_slice(t, at + sep.n, t->n));
	}
	return qwen_chat_tuple(c->r, v, 3);
}

enum { FIND_LAST = 1, MUST = 2 };	/* for rfind(); for index(), which
					   fails */

static struct chat_value
m_find(const struct chat_builtin_call *c)
{
	struct chat_text x = text(c, 0, "sub", "");
	size_t at;

	if (c->a->n != 1 || c->r->failed)
		return chat_refuse(c, "a search for other than one string");
	at = (c->variant & FIND_LAST) != 0 ?
	    qwen_chat_search_back(c->r, c->t, &x, c->t->n) :
	    qwen_chat_search(c->r, c->t, &x, 0);
	if (at > c->t->n && (c->variant & MUST) != 0)
		return chat_refuse(c, "index() of what is not there");
	return chat_int(at > c->t->n || c->r->failed ? -1 :
	    (int64_t)qwen_chat_chars(c->r, c->t->s, at));
}

/* --------------------------------------------------------------------- HTML */

struct chat_value
qwen_chat_escape(struct chat_exec *r, const struct chat_text *t)
{
	static const char chars[] = "&<>'\"";
	static const char *const entity[] = { "&amp;", "&lt;", "&gt;",
	    "&#39;", "&#34;" };
	struct chat_buf b = { 0 };
	struct chat_value v;
	size_t i, done = 0;
	const char *p;

	qwen_chat_step(r, t->n / 8);
	for (i = 0; i < t->n && !r->failed; i++) {
		p = t->s[i] != '\0' ? strchr(chars, t->s[i]) : NULL;
		if (p == NULL)
			continue;
		qwen_chat_put_slice(r, &b, t, done, i);
		qwen_chat_put_like(r, &b, t, i, entity[p - chars],
		    strlen(entity[p - chars]));
		done = i + 1;
	}
	qwen_chat_put_slice(r, &b, t, done, t->n);
	v = qwen_chat_buf_value(r, &b);
	v.markup = 1;
	return v;
}

enum { ESCAPE, FORCE };

static struct chat_value
f_escape(const struct chat_builtin_call *c)
{
	struct chat_text t = qwen_chat_as_text(c);

	if (c->x->type == CHAT_TEXT && c->x->markup && c->variant == ESCAPE)
		return *c->x;
	return qwen_chat_escape(c->r, &t);
}

static struct chat_value
f_safe(const struct chat_builtin_call *c)
{
	struct chat_value v = chat_text(qwen_chat_as_text(c));

	v.markup = 1;
	return v;
}

static struct chat_value
t_escaped(const struct chat_builtin_call *c)
{
	return chat_bool(c->x->type == CHAT_TEXT && c->x->markup);
}

/* ------------------------------------------------------------------- tables */

const struct chat_builtin qwen_chat_in_words[] = {
	METHOD(TEXT, "upper", f_case, QWEN_CASE_UPPER),
	FILTER("upper", f_case, QWEN_CASE_UPPER),
	METHOD(TEXT, "lower", f_case, QWEN_CASE_LOWER),
	FILTER("lower", f_case, QWEN_CASE_LOWER),
	METHOD(TEXT, "title", f_case, QWEN_CASE_TITLE),
	FILTER("title", f_case, HEADING),
	METHOD(TEXT, "capitalize", f_case, CAPITALIZE),
	FILTER("capitalize", f_case, CAPITALIZE),
	METHOD(TEXT, "swapcase", f_case, SWAP),
	METHOD(TEXT, "isalpha", m_is, ALPHA),
	METHOD(TEXT, "isnumeric", m_is, NUMERIC),
	METHOD(TEXT, "isalnum", m_is, ALPHA | NUMERIC),
	METHOD(TEXT, "isspace", m_is, SPACE),
	METHOD(TEXT, "isascii", m_is, ASCII),
	METHOD(TEXT, "islower", is_case, QWEN_KIND_LOWER),
	METHOD(TEXT, "isupper", is_case, QWEN_KIND_UPPER),
	TEST("lower", is_case, QWEN_KIND_LOWER),
	TEST("upper", is_case, QWEN_KIND_UPPER), TEST("escaped", t_escaped, 0),
	METHOD(TEXT, "center", m_pad, CENTER),
	METHOD(TEXT, "ljust", m_pad, LEFT), METHOD(TEXT, "rjust", m_pad, RIGHT),
	FILTER("center", f_center, CENTER), METHOD(TEXT, "zfill", m_zfill, 0),
	METHOD(TEXT, "partition", m_partition, LEFT),
	METHOD(TEXT, "rpartition", m_partition, RIGHT),
	METHOD(TEXT, "find", m_find, 0), METHOD(TEXT, "index", m_find, MUST),
	METHOD(TEXT, "rfind", m_find, FIND_LAST),
	METHOD(TEXT, "rindex", m_find, MUST | FIND_LAST),
	FILTER("e escape", f_escape, ESCAPE),
	FILTER("forceescape", f_escape, FORCE), FILTER("safe", f_safe, 0),
	FILTER("truncate", f_truncate, 0), FILTER("wordcount", f_wordcount, 0),
	{ NULL, NULL, 0, 0 }
};
