/* SPDX-License-Identifier: ISC */
/*
 * arguments.c - makes arguments of earlier calls an object, whatever the client
 * sent back.  A call may be truncated or not be JSON, but the conversation must
 * continue.
 */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "text/chat/request.h"
#include "text/json/json.h"

enum { DEPTH_MAX = 100 };	/* nesting of arguments that are repaired */

/* The key for arguments that are not an object: {"input": [1, 2]}. */
static const char no_object[] = "input";

/* ----------------------------------------------------------- truncated JSON */

/* JSON that is copied as far as it is readable. */
struct repair {
	struct qwen_text out;
	char		 close[DEPTH_MAX];	/* closing brackets */
	size_t		 depth;
	size_t		 good;		/* out is complete up to here */
	size_t		 good_depth;	/* once this many brackets are closed;
					   set before a comma and after an
					   opening bracket */
	int		 in_string;
	int		 done;		/* the outermost bracket is closed */
};

/*
 * Returns the length of the escape at s: 2 or 6; 1 if it is no escape, n if it
 * is truncated.
 */
static size_t
escape_len(const char *s, size_t n)
{
	size_t k;

	if (n < 2 || s[1] == '\0')
		return n < 2 ? n : 1;
	if (s[1] != 'u')
		return strchr("\"\\/bfnrt", s[1]) != NULL ? 2 : 1;
	for (k = 2; k < 6 && k < n; k++) {
		if (s[k] == '\0' || strchr("0123456789abcdefABCDEF",
		    s[k]) == NULL)
			return 1;
	}
	return k;
}

/* Copies a character of a string; returns the bytes of s used. */
static size_t
copy_char(struct repair *p, const char *s, size_t n)
{
	unsigned char c = (unsigned char)s[0];
	size_t len = 1;

	if (c < 0x20)
		qwen_text_fmt(&p->out, "\\u%04x", c);
	else if (c != '\\') {
		p->in_string = c != '"';
		qwen_text_add(&p->out, s, 1);
	} else if ((len = escape_len(s, n)) == 1 && n > 1)
		qwen_text_str(&p->out, "\\\\");
	else if (len == 6 || (len == 2 && s[1] != 'u'))
		qwen_text_add(&p->out, s, len);
	return len;	/* a truncated escape is dropped */
}

/* Copies a byte outside of strings; -1 if it is not allowed there. */
static int
copy_structure(struct repair *p, char c)
{
	if (c == ',') {
		p->good = p->out.n;
		p->good_depth = p->depth;
	}
	if (c == '}' || c == ']') {
		if (p->depth == 0 || p->close[p->depth - 1] != c)
			return -1;
		p->depth--;
		p->done = p->depth == 0;
	}
	if (c == '{' || c == '[') {
		if (p->depth == DEPTH_MAX)
			return -1;
		p->close[p->depth++] = c == '{' ? '}' : ']';
	}
	qwen_text_add(&p->out, &c, 1);
	if (c == '{' || c == '[') {
		p->good = p->out.n;
		p->good_depth = p->depth;
	}
	p->in_string = c == '"';
	return 0;
}

/*
 * Parses out with all brackets closed.  NULL: not JSON, or out of memory
 * (*oom).
 */
static yyjson_doc *
closed(struct repair *p, size_t n, size_t depth, int *oom)
{
	struct qwen_err err;
	yyjson_doc *doc;

	p->out.n = n;
	while (depth > 0)
		qwen_text_add(&p->out, &p->close[--depth], 1);
	if (p->out.failed) {
		*oom = 1;
		return NULL;
	}
	doc = qwen_json_open_any(p->out.s, p->out.n, &err);
	*oom = doc == NULL && err.code == QWEN_ENOMEM;
	return doc;
}

/*
 * Parses the readable part of a text that begins like an object: truncated
 * strings end where they were cut, and an incomplete value is dropped.
 */
static yyjson_doc *
repair(const struct chat_text *t, int *oom)
{
	struct repair p = { .in_string = 0 };
	yyjson_doc *doc;
	size_t i = 0;

	while (i < t->n && !p.done) {
		if (p.in_string)
			i += copy_char(&p, t->s + i, t->n - i);
		else if (copy_structure(&p, t->s[i++]) < 0)
			break;
	}
	if (p.in_string)
		qwen_text_str(&p.out, "\"");
	doc = closed(&p, p.out.n, p.depth, oom);
	/* none of these brackets was closed since */
	if (doc == NULL && !*oom && p.good > 0)
		doc = closed(&p, p.good, p.good_depth, oom);
	qwen_text_fini(&p.out);
	return doc;
}

/* ------------------------------------------------------------------ values */

/* If an object has a key twice, the last one counts, as in Python. */
static void
last_counts(struct chat_exec *r, struct chat_value *v)
{
	struct chat_value d;
	size_t i;

	if (v->type == CHAT_LIST) {
		for (i = 0; i < v->u.l.n && !r->failed; i++)
			last_counts(r, &v->u.l.v[i]);
		return;
	}
	if (v->type != CHAT_DICT)
		return;
	d = qwen_chat_new_dict(r, CHAT_DICT);
	for (i = 0; i < v->u.d->n && !r->failed; i++)
		last_counts(r, &v->u.d->p[i].v);
	qwen_chat_put_all(r, d.u.d, v->u.d);
	if (!r->failed)
		*v = d;
}

struct chat_value
qwen_chat_wrap(struct chat_exec *r, const struct chat_value *v)
{
	struct chat_value d = qwen_chat_new_dict(r, CHAT_DICT);

	qwen_chat_put_key(r, d.u.d, no_object, *v);
	return d;
}

/*
 * Keeps a document until the request is closed and converts it; strict: it has
 * no duplicate keys.
 */
static struct chat_value
keep(struct qwen_chat_request *q, struct chat_exec *r, yyjson_doc *doc,
    int strict)
{
	struct chat_value v;

	if (qwen_chat_keep(q, r, doc) < 0)
		return chat_undefined("", 0);
	v = qwen_chat_convert(r, yyjson_doc_get_root(doc), 8);
	if (!r->failed && !strict)
		last_counts(r, &v);
	return v;
}

/*
 * Parses a text: an object, another value, or, if it is not JSON, the text
 * itself.
 */
static struct chat_value
read_text(struct qwen_chat_request *q, struct chat_exec *r,
    const struct chat_text *t, int *whole)
{
	struct qwen_err err;
	yyjson_doc *doc = qwen_json_open(t->s, t->n, &err);
	int oom = doc == NULL && err.code == QWEN_ENOMEM, strict = doc != NULL;

	if (doc == NULL && !oom) {
		doc = qwen_json_open_any(t->s, t->n, &err);
		oom = doc == NULL && err.code == QWEN_ENOMEM;
	}
	*whole = doc != NULL;
	if (doc == NULL && !oom && t->s[0] == '{')
		doc = repair(t, &oom);
	if (oom)
		qwen_chat_oom(r);
	if (r->failed)
		yyjson_doc_free(doc);
	else if (doc != NULL)
		return keep(q, r, doc, strict);
	return chat_text(*t);
}

/* Takes arguments from a non-empty string. */
static void
from_text(struct qwen_chat_request *q, struct chat_exec *r,
    struct chat_value *v, const struct chat_text *text)
{
	struct chat_value got, inner;
	int whole, again = 0;

	got = read_text(q, r, text, &whole);
	/* JSON in a string of JSON */
	if (!r->failed && whole && got.type == CHAT_TEXT && got.u.s.n > 0 &&
	    got.u.s.s[0] == '{') {
		inner = read_text(q, r, &got.u.s, &again);
		if (inner.type == CHAT_DICT)
			got = inner;
		whole = again;
	}
	if (r->failed)
		return;
	q->repaired |= !whole || got.type != CHAT_DICT;
	*v = got.type == CHAT_DICT ? got : got.type == CHAT_NONE ?
	    qwen_chat_new_dict(r, CHAT_DICT) : qwen_chat_wrap(r, &got);
}

void
qwen_chat_arguments(struct qwen_chat_request *q, struct chat_exec *r,
    struct chat_value *v, int parse)
{
	struct chat_text text = { NULL, 0, NULL };

	if (v->type == CHAT_TEXT)
		text = qwen_chat_strip(r, &v->u.s, NULL, 3);
	if (v->type == CHAT_NONE || (v->type == CHAT_TEXT && text.n == 0))
		*v = qwen_chat_new_dict(r, CHAT_DICT);
	else if (v->type == CHAT_TEXT && parse)
		from_text(q, r, v, &text);
}
