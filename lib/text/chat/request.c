/* SPDX-License-Identifier: ISC */
/*
 * request.c - a request in JSON as the variables of a template: numbers keep
 * their digits, and what templates cannot take is put right where it is clear
 * what was meant.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/chat/request.h"

static int
fail(struct chat_run *r, const char *what)
{
	return qwen_fail(r->err, QWEN_EFORMAT, "%s", what);
}

/* ---------------------------------------------------------- JSON to values */

static int convert(struct chat_run *r, yyjson_val *json, unsigned depth,
    struct chat_value *out);

/* Digits as they were written; a point or an exponent makes a double. */
static void
number(const char *s, size_t n, struct chat_value *out)
{
	size_t i;
	int64_t k = 0;
	int minus = s[0] == '-', big = 0;

	for (i = 0; i < n; i++) {
		if (s[i] == '.' || s[i] == 'e' || s[i] == 'E') {
			out->type = CHAT_FLOAT;
			out->u.f = strtod(s, NULL);
			return;
		}
	}
	for (i = (size_t)minus; i < n; i++)
		big |= __builtin_mul_overflow(k, 10, &k) ||
		    __builtin_add_overflow(k, s[i] - '0', &k);
	*out = chat_int(minus ? -k : k);
	if (big) {
		out->type = CHAT_BIG;
		out->u.s.s = s;
		out->u.s.n = n;
		out->u.s.from = NULL;
	}
}

static int
array(struct chat_run *r, yyjson_val *json, unsigned depth,
    struct chat_value *out)
{
	struct chat_list l = { NULL, 0 };
	yyjson_val *v;
	size_t i, n;

	l.v = qwen_chat_new(r, yyjson_arr_size(json), sizeof *l.v);
	if (l.v == NULL)
		return -1;
	yyjson_arr_foreach(json, i, n, v) {
		if (convert(r, v, depth + 1, &l.v[l.n++]) < 0)
			return -1;
	}
	*out = chat_list(l);
	return 0;
}

/* By key, those of the same key in the order that they came in. */
static int
by_key(const void *a, const void *b)
{
	const struct chat_pair *x = *(struct chat_pair *const *)a;
	const struct chat_pair *y = *(struct chat_pair *const *)b;
	int c = qwen_chat_order(&x->key.u.s, &y->key.u.s);

	return c != 0 ? c : (x > y) - (x < y);
}

/* Of members with the same key, the first's place and the last's value count. */
static int
unite(struct chat_run *r, struct chat_dict *d)
{
	struct chat_pair **p = qwen_chat_new(r, d->n, sizeof *p), *first;
	size_t i, n = 0;

	if (p == NULL)
		return -1;
	for (i = 0; i < d->n; i++)
		p[i] = &d->p[i];
	qsort(p, d->n, sizeof *p, by_key);
	for (first = p[0], i = 1; i < d->n; i++) {
		if (qwen_chat_order(&p[i]->key.u.s, &first->key.u.s) == 0) {
			first->v = p[i]->v;
			p[i]->key.type = CHAT_UNDEFINED;
		} else
			first = p[i];
	}
	for (i = 0; i < d->n; i++) {
		if (d->p[i].key.type != CHAT_UNDEFINED)
			d->p[n++] = d->p[i];
	}
	d->n = n;
	return 0;
}

static struct chat_value
text(yyjson_val *json)
{
	struct chat_text t = { yyjson_get_str(json), yyjson_get_len(json),
	    NULL };

	return chat_text(t);
}

static int
object(struct chat_run *r, yyjson_val *json, unsigned depth,
    struct chat_value *out)
{
	struct chat_dict *d = qwen_chat_new(r, 1, sizeof *d);
	yyjson_val *key, *v;
	size_t i, n;

	if (d == NULL)
		return -1;
	d->n = 0;
	d->cap = yyjson_obj_size(json);
	d->p = qwen_chat_new(r, d->cap, sizeof *d->p);
	if (d->p == NULL)
		return -1;
	yyjson_obj_foreach(json, i, n, key, v) {
		d->p[d->n].key = text(key);
		if (convert(r, v, depth + 1, &d->p[d->n++].v) < 0)
			return -1;
	}
	if (d->n > 1 && unite(r, d) < 0)
		return -1;
	out->type = CHAT_DICT;
	out->u.d = d;
	return 0;
}

static int
convert(struct chat_run *r, yyjson_val *json, unsigned depth,
    struct chat_value *out)
{
	memset(out, 0, sizeof *out);
	if (depth > CHAT_VALUE_DEPTH - 20)
		return fail(r, "the request has values nested too deeply");
	switch (yyjson_get_type(json)) {
	case YYJSON_TYPE_RAW:
		number(yyjson_get_raw(json), yyjson_get_len(json), out);
		return 0;
	case YYJSON_TYPE_BOOL:
		*out = chat_bool(yyjson_get_bool(json));
		return 0;
	case YYJSON_TYPE_STR:
		*out = text(json);
		return 0;
	case YYJSON_TYPE_ARR: return array(r, json, depth, out);
	case YYJSON_TYPE_OBJ: return object(r, json, depth, out);
	default:
		out->type = CHAT_NONE;
		return 0;
	}
}

int
qwen_chat_read(yyjson_doc **out, const char *json, size_t n, const char *what,
    struct qwen_err *err)
{
	yyjson_read_err e;

	/* Without the flag for it, the text is not written to. */
	*out = yyjson_read_opts((char *)(uintptr_t)json, n,
	    YYJSON_READ_NUMBER_AS_RAW, NULL, &e);
	if (*out != NULL)
		return 0;
	if (e.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		return qwen_oom(err);
	return qwen_fail(err, QWEN_EFORMAT, "%s: no JSON at byte %zu: %s",
	    what, e.pos, e.msg);
}

/* ------------------------------------------------------------ putting right */

static int
get(struct chat_run *r, const struct chat_dict *d, const char *key,
    struct chat_value **out)
{
	struct chat_value k = chat_text(chat_literal(key));
	const struct chat_value *v;

	if (qwen_chat_find(r, d, &k, &v) < 0)
		return -1;
	*out = (struct chat_value *)(uintptr_t)v;
	return 0;
}

static int
put(struct chat_run *r, struct chat_dict *d, const char *key,
    const struct chat_value *v)
{
	struct chat_value k = chat_text(chat_literal(key));

	return qwen_chat_dict_put(r, d, &k, v);
}

/* A thought under its other names. */
static int
name_reasoning(struct chat_run *r, struct chat_dict *m)
{
	static const char *const other[] = { "reasoning", "thinking" };
	struct chat_value *v;
	size_t i;

	if (get(r, m, "reasoning_content", &v) < 0)
		return -1;
	if (v != NULL && v->type != CHAT_NONE)
		return 0;
	for (i = 0; i < 2; i++) {
		if (get(r, m, other[i], &v) < 0)
			return -1;
		if (v != NULL && v->type == CHAT_TEXT)
			return put(r, m, "reasoning_content", v);
	}
	return 0;
}

/* JSON that lives as long as the request; NULL and an error. */
static yyjson_doc *
read(struct qwen_chat_request *q, struct chat_run *r, const char *json,
    size_t n, const char *what)
{
	if (qwen_grow(&q->doc, &q->cap_doc, q->n_doc + 1,
	    sizeof *q->doc) < 0) {
		qwen_oom(r->err);
		return NULL;
	}
	if (qwen_chat_read(&q->doc[q->n_doc], json, n, what, r->err) < 0)
		return NULL;
	return q->doc[q->n_doc++];
}

/* Arguments given as a JSON string, as an object. */
static int
parse_arguments(struct qwen_chat_request *q, struct chat_run *r,
    struct chat_dict *call)
{
	struct chat_value *f, *v;
	yyjson_doc *doc;

	if (get(r, call, "function", &f) < 0)
		return -1;
	if (f != NULL && f->type == CHAT_DICT)
		call = f->u.d;
	if (get(r, call, "arguments", &v) < 0)
		return -1;
	if (v == NULL || v->type != CHAT_TEXT)
		return 0;
	doc = read(q, r, v->u.s.s, v->u.s.n, "arguments of a tool call");
	if (doc == NULL)
		return -1;
	if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
		return fail(r, "arguments of a tool call are no object");
	return convert(r, yyjson_doc_get_root(doc), 8, v);
}

static int
calls(struct qwen_chat_request *q, struct chat_run *r, struct chat_dict *m)
{
	struct chat_value *v;
	size_t i;

	if (get(r, m, "tool_calls", &v) < 0)
		return -1;
	if (v == NULL || v->type != CHAT_LIST)
		return 0;
	for (i = 0; i < v->u.l.n; i++) {
		if (v->u.l.v[i].type == CHAT_DICT &&
		    parse_arguments(q, r, v->u.l.v[i].u.d) < 0)
			return -1;
	}
	return 0;
}

static int
messages(struct qwen_chat_request *q, struct chat_run *r,
    const struct chat_list *l, int arguments)
{
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (l->v[i].type != CHAT_DICT)
			return fail(r, "a message is no object");
		if (name_reasoning(r, l->v[i].u.d) < 0 ||
		    (arguments && calls(q, r, l->v[i].u.d) < 0))
			return -1;
	}
	return 0;
}

/* Text parts, with a line feed between them, as one text; others stay. */
static int
unite_parts(struct chat_run *r, struct chat_value *content)
{
	const struct chat_list *l = &content->u.l;
	struct chat_buf b = { 0 };
	struct chat_value *v = NULL;
	size_t i;

	for (i = 0; i < l->n && !b.failed; i++, v = NULL) {
		if (l->v[i].type == CHAT_DICT &&
		    get(r, l->v[i].u.d, "text", &v) < 0)
			b.failed = 1;
		else if (v == NULL || v->type != CHAT_TEXT)
			break;
		else {
			qwen_chat_put_data(r, &b, "\n", i > 0);
			qwen_chat_put(r, &b, &v->u.s);
		}
	}
	if (b.failed || (i == l->n && i > 0))
		return qwen_chat_take(r, &b, content);
	qwen_chat_buf_fini(&b);
	return 0;
}

int
qwen_chat_put_right(struct chat_run *r, struct chat_value *list)
{
	struct chat_value *v, empty = chat_text(chat_literal(""));
	size_t i;

	for (i = 0; i < list->u.l.n; i++) {
		struct chat_dict *m = list->u.l.v[i].u.d;

		if (get(r, m, "content", &v) < 0)
			return -1;
		if (v == NULL || v->type == CHAT_NONE) {
			if (put(r, m, "content", &empty) < 0)
				return -1;
		} else if (v->type == CHAT_LIST && unite_parts(r, v) < 0)
			return -1;
	}
	return 0;
}

/* A role, as text that ends; "" if there is none. */
static int
role_of(struct chat_run *r, const struct chat_dict *m, char role[64])
{
	struct chat_value *v;

	role[0] = '\0';
	if (get(r, m, "role", &v) < 0)
		return -1;
	if (v != NULL && v->type == CHAT_TEXT) {
		size_t n = v->u.s.n < 63 ? v->u.s.n : 63;

		memcpy(role, v->u.s.s, n);
		role[n] = '\0';
	}
	return 0;
}

/* A template that leaves out one of these does so on purpose. */
static int
is_usual(const char *role)
{
	return strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0 ||
	    strcmp(role, "system") == 0 || strcmp(role, "tool") == 0;
}

int
qwen_chat_check_lost(struct chat_run *r, const struct chat_value *messages,
    const char *source)
{
	const struct chat_list *l = &messages->u.l;
	struct chat_text all = { r->out->s, r->out->n, NULL }, text;
	struct chat_value *v;
	char role[64];
	size_t i, at;

	if (strstr(source, "role") == NULL)
		return 0;
	for (i = 0; i < l->n; i++) {
		if (role_of(r, l->v[i].u.d, role) < 0 ||
		    get(r, l->v[i].u.d, "content", &v) < 0)
			return -1;
		if (v == NULL || v->type != CHAT_TEXT ||
		    is_usual(role) ||
		    (role[0] != '\0' && strstr(source, role) != NULL))
			continue;
		text = qwen_chat_strip(&v->u.s, NULL, 3);
		if (qwen_chat_search(r, &all, &text, 0, &at) < 0)
			return -1;
		if (at <= all.n)
			continue;
		return qwen_fail(r->err, QWEN_EUNSUP, role[0] == '\0' ?
		    "message %zu has no role" : "message %zu has the role "
		    "'%s', which the template passes over", i + 1, role);
	}
	return 0;
}

/* --------------------------------------------------------------- variables */

/* All members as variables; what is null counts as not given. */
static int
options(struct chat_run *r, const struct chat_dict *d)
{
	size_t i;
	char *name;

	for (i = 0; i < d->n; i++) {
		const struct chat_text *key = &d->p[i].key.u.s;

		if (d->p[i].v.type == CHAT_NONE)
			continue;
		name = qwen_chat_new(r, key->n + 1, 1);
		if (name == NULL)
			return -1;
		memcpy(name, key->s, key->n);
		name[key->n] = '\0';
		if (qwen_chat_set(r, name, &d->p[i].v) < 0)
			return -1;
	}
	return 0;
}

static int
check_messages(struct chat_run *r, const struct chat_dict *d,
    struct chat_value **list)
{
	struct chat_value *tools;

	if (get(r, d, "messages", list) < 0)
		return -1;
	if (*list == NULL || (*list)->type != CHAT_LIST)
		return fail(r, "the request has no list of messages");
	if ((*list)->u.l.n == 0)
		return fail(r, "the request has no messages");
	if (get(r, d, "tools", &tools) < 0)
		return -1;
	if (tools != NULL && tools->type != CHAT_NONE &&
	    tools->type != CHAT_LIST)
		return fail(r, "the tools are no list");
	return 0;
}

int
qwen_chat_open_request(struct qwen_chat_request *q, struct chat_run *r,
    const char *json, size_t n, int arguments)
{
	struct chat_value v, *more, none = { .type = CHAT_NONE };
	struct chat_value yes = chat_bool(1);
	yyjson_doc *doc = read(q, r, json, n, "request");

	if (doc == NULL)
		return -1;
	if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
		return fail(r, "the request is no JSON object");
	if (convert(r, yyjson_doc_get_root(doc), 0, &v) < 0 ||
	    check_messages(r, v.u.d, &q->messages) < 0 ||
	    messages(q, r, &q->messages->u.l, arguments) < 0)
		return -1;
	/* transformers gives these always. */
	if (qwen_chat_set(r, "tools", &none) < 0 ||
	    qwen_chat_set(r, "documents", &none) < 0 ||
	    qwen_chat_set(r, "add_generation_prompt", &yes) < 0 ||
	    get(r, v.u.d, "chat_template_kwargs", &more) < 0)
		return -1;
	if (more != NULL && more->type == CHAT_DICT &&
	    options(r, more->u.d) < 0)
		return -1;
	return options(r, v.u.d);
}

void
qwen_chat_close_request(struct qwen_chat_request *q)
{
	size_t i;

	for (i = 0; i < q->n_doc; i++)
		yyjson_doc_free(q->doc[i]);
	free(q->doc);
}
