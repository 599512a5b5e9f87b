/* SPDX-License-Identifier: ISC */
/*
 * request.c - converts a JSON request to the variables of a template.  Numbers
 * keep their digits.  Input that templates cannot handle is adapted where its
 * meaning is clear.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/chat/request.h"
#include "text/json/json.h"

/* ---------------------------------------------------------- JSON to values */

/* Converts a number; with a fraction or exponent it becomes a double. */
static struct chat_value
number(const char *s, size_t n)
{
	struct chat_value v = { .type = CHAT_BIG, .u.s = { s, n, NULL } };
	int64_t i;

	if (strpbrk(s, ".eE") != NULL)
		v = (struct chat_value){ .type = CHAT_FLOAT,
		    .u.f = strtod(s, NULL) };
	else if (qwen_chat_digits(s, n, &i))
		v = chat_int(i);
	return v;
}

static struct chat_value
array(struct chat_exec *r, yyjson_val *json, unsigned depth)
{
	struct chat_list l = { NULL, 0 };
	yyjson_val *v;
	size_t i, n;

	l.v = qwen_chat_new(r, yyjson_arr_size(json), sizeof *l.v);
	yyjson_arr_foreach(json, i, n, v) {
		if (r->failed)
			break;
		l.v[l.n++] = qwen_chat_convert(r, v, depth + 1);
	}
	return chat_list(l);
}

static struct chat_value
text(yyjson_val *json)
{
	struct chat_text t = { yyjson_get_str(json), yyjson_get_len(json),
	    NULL };

	return chat_text(t);
}

static struct chat_value
object(struct chat_exec *r, yyjson_val *json, unsigned depth)
{
	struct chat_value out = qwen_chat_new_dict(r, CHAT_DICT);
	struct chat_dict *d = out.u.d;
	yyjson_val *key, *v;
	size_t i, n;

	if (r->failed)
		return out;
	d->cap = yyjson_obj_size(json);
	d->p = qwen_chat_new(r, d->cap, sizeof *d->p);
	yyjson_obj_foreach(json, i, n, key, v) {
		if (r->failed)
			return out;
		d->p[d->n].key = text(key);
		d->p[d->n++].v = qwen_chat_convert(r, v, depth + 1);
	}
	return out;
}

struct chat_value
qwen_chat_convert(struct chat_exec *r, yyjson_val *json, unsigned depth)
{
	if (depth > CHAT_VALUE_DEPTH - 20) {
		qwen_chat_refuse(r, "the request has values nested too deeply");
		return chat_none();
	}
	switch (yyjson_get_type(json)) {
	case YYJSON_TYPE_RAW:
		return number(yyjson_get_raw(json), yyjson_get_len(json));
	case YYJSON_TYPE_BOOL: return chat_bool(yyjson_get_bool(json));
	case YYJSON_TYPE_STR: return text(json);
	case YYJSON_TYPE_ARR: return array(r, json, depth);
	case YYJSON_TYPE_OBJ: return object(r, json, depth);
	default: return chat_none();
	}
}

int
qwen_chat_read(yyjson_doc **out, const char *json, size_t n, const char *what,
    struct qwen_err *err)
{
	struct qwen_err e;

	if ((*out = qwen_json_open(json, n, &e)) != NULL)
		return 0;
	return e.code == QWEN_ENOMEM ? qwen_oom(err) :
	    qwen_fail(err, e.code, "%s: %s", what, e.msg);
}

int
qwen_chat_try_json(yyjson_doc **out, const char *json, size_t n,
    struct qwen_err *err)
{
	struct qwen_err e;

	if ((*out = qwen_json_open(json, n, &e)) != NULL)
		return 1;
	return e.code == QWEN_ENOMEM ? qwen_oom(err) : 0;
}

int
qwen_chat_keep(struct qwen_chat_request *q, struct chat_exec *r,
    yyjson_doc *doc)
{
	if (qwen_grow(&q->doc, &q->cap_doc, q->n_doc + 1,
	    sizeof *q->doc) < 0) {
		yyjson_doc_free(doc);
		return qwen_chat_oom(r);
	}
	q->doc[q->n_doc++] = doc;
	return 0;
}

/* --------------------------------------------------------------- adaptation */

/* Copies a thought from its other names. */
static void
name_reasoning(struct chat_exec *r, struct chat_dict *m)
{
	static const char *const other[] = { "reasoning", "thinking" };
	struct chat_value *v;
	size_t i;

	if (!chat_missing(qwen_chat_key(r, m, "reasoning_content")))
		return;
	for (i = 0; i < 2; i++) {
		v = qwen_chat_key(r, m, other[i]);
		if (v != NULL && v->type == CHAT_TEXT) {
			qwen_chat_put_key(r, m, "reasoning_content", *v);
			return;
		}
	}
}

/* Turns function_call, OpenAI's older form, into tool_calls. */
static void
rename_call(struct chat_exec *r, struct chat_dict *m)
{
	struct chat_value *f = qwen_chat_key(r, m, "function_call");
	struct chat_value *calls = qwen_chat_key(r, m, "tool_calls"), v;
	struct chat_list l;

	if (f == NULL || f->type != CHAT_DICT || (calls != NULL &&
	    calls->type == CHAT_LIST && calls->u.l.n > 0))
		return;
	v = qwen_chat_new_dict(r, CHAT_DICT);
	l = qwen_chat_new_list(r, 1);
	if (r->failed)
		return;
	qwen_chat_put_key(r, v.u.d, "type", chat_cstr("function"));
	qwen_chat_put_key(r, v.u.d, "function", *f);
	l.v[0] = v;
	qwen_chat_put_key(r, m, "tool_calls", chat_list(l));
}

/* Returns the arguments of a call, added if absent; NULL after a failure. */
static struct chat_value *
arguments_of(struct chat_exec *r, struct chat_dict *call)
{
	struct chat_value *f = qwen_chat_key(r, call, "function");

	if (f != NULL && f->type == CHAT_DICT)
		call = f->u.d;
	if (qwen_chat_key(r, call, "arguments") == NULL)
		qwen_chat_put_key(r, call, "arguments", chat_none());
	return qwen_chat_key(r, call, "arguments");
}

/*
 * Parses the arguments of all calls of a message; or, if q is NULL, wraps those
 * that are not objects.
 */
static void
calls(struct qwen_chat_request *q, struct chat_exec *r, struct chat_dict *m,
    int parse)
{
	struct chat_value *v = qwen_chat_key(r, m, "tool_calls"), *arguments;
	size_t i;

	for (i = 0; v != NULL && v->type == CHAT_LIST && i < v->u.l.n; i++) {
		if (v->u.l.v[i].type != CHAT_DICT)
			continue;
		arguments = arguments_of(r, v->u.l.v[i].u.d);
		if (arguments != NULL && q != NULL)
			qwen_chat_arguments(q, r, arguments, parse);
		else if (arguments != NULL && arguments->type != CHAT_DICT &&
		    arguments->type != CHAT_TEXT)
			*arguments = qwen_chat_wrap(r, arguments);
	}
}

/*
 * Turns a refusal, which OpenAI's clients send back as a part or a field, into
 * text.
 */
static void
name_refusal(struct chat_exec *r, struct chat_dict *m)
{
	struct chat_value *content = qwen_chat_key(r, m, "content"), *v;
	size_t i;

	if (chat_missing(content)) {
		v = qwen_chat_key(r, m, "refusal");
		if (v != NULL && v->type == CHAT_TEXT)
			qwen_chat_put_key(r, m, "content", *v);
		return;
	}
	for (i = 0; content->type == CHAT_LIST && i < content->u.l.n; i++) {
		m = content->u.l.v[i].type == CHAT_DICT ?
		    content->u.l.v[i].u.d : NULL;
		v = m != NULL && chat_missing(qwen_chat_key(r, m, "text")) ?
		    qwen_chat_key(r, m, "refusal") : NULL;
		if (v != NULL && v->type == CHAT_TEXT) {
			qwen_chat_put_key(r, m, "text", *v);
			qwen_chat_put_key(r, m, "type", chat_cstr("text"));
		}
	}
}

static void
messages(struct qwen_chat_request *q, struct chat_exec *r,
    const struct chat_list *l, int parse)
{
	struct chat_value *role;
	size_t i;

	for (i = 0; i < l->n && !r->failed; i++) {
		if (l->v[i].type != CHAT_DICT) {
			qwen_chat_refuse(r, "a message is not an object");
			return;
		}
		name_reasoning(r, l->v[i].u.d);
		rename_call(r, l->v[i].u.d);
		calls(q, r, l->v[i].u.d, parse);
		name_refusal(r, l->v[i].u.d);
		role = qwen_chat_key(r, l->v[i].u.d, "role");
		if (chat_is_text(role, "function"))
			*role = chat_cstr("tool");
	}
}

void
qwen_chat_join_parts(struct chat_exec *r, struct chat_value *content,
    const char *between)
{
	const struct chat_list *l = &content->u.l;
	struct chat_buf b = { 0 };
	struct chat_value united, *v;
	size_t i;

	for (i = 0; i < l->n; i++) {
		v = l->v[i].type != CHAT_DICT ? NULL :
		    qwen_chat_key(r, l->v[i].u.d, "text");
		if (v == NULL || v->type != CHAT_TEXT)
			break;
		if (i > 0)
			qwen_chat_put_str(r, &b, between);
		qwen_chat_put(r, &b, &v->u.s);
	}
	united = qwen_chat_buf_value(r, &b);
	if (i == l->n)
		*content = united;
}

int
qwen_chat_adapt_contents(struct chat_exec *r, struct chat_value *list)
{
	struct chat_value *v;
	size_t i;

	for (i = 0; i < list->u.l.n; i++) {
		struct chat_dict *m = list->u.l.v[i].u.d;

		v = qwen_chat_key(r, m, "content");
		if (chat_missing(v))
			qwen_chat_put_key(r, m, "content", chat_cstr(""));
		else if (v->type == CHAT_LIST)
			qwen_chat_join_parts(r, v, "\n");
		calls(NULL, r, m, 0);
	}
	return r->failed ? -1 : 0;
}

/* Copies a role, truncated, with a NUL; "" if there is none. */
static void
role_of(struct chat_exec *r, const struct chat_dict *m, char role[64])
{
	struct chat_value *v = qwen_chat_key(r, m, "role");
	size_t n = 0;

	if (v != NULL && v->type == CHAT_TEXT) {
		n = v->u.s.n < 63 ? v->u.s.n : 63;
		memcpy(role, v->u.s.s, n);
	}
	role[n] = '\0';
}

/* A template that omits messages of these roles does so on purpose. */
static int
is_usual(const char *role)
{
	return strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0 ||
	    strcmp(role, "system") == 0 || strcmp(role, "tool") == 0;
}

int
qwen_chat_check_ignored(struct chat_exec *r, const struct chat_value *messages,
    const char *source)
{
	const struct chat_list *l = &messages->u.l;
	struct chat_text all = { r->out->s, r->out->n, NULL }, text;
	const size_t n_source = strlen(source);
	struct chat_value *v;
	char role[64];
	size_t i;

	if (strstr(source, "role") == NULL)
		return 0;
	for (i = 0; i < l->n && !r->failed; i++) {
		role_of(r, l->v[i].u.d, role);
		v = qwen_chat_key(r, l->v[i].u.d, "content");
		if (v == NULL || v->type != CHAT_TEXT || is_usual(role))
			continue;
		qwen_chat_step(r, n_source / 8);
		if (role[0] != '\0' && strstr(source, role) != NULL)
			continue;
		text = qwen_chat_strip(r, &v->u.s, NULL, 3);
		if (qwen_chat_search(r, &all, &text, 0) <= all.n || r->failed)
			continue;
		return qwen_fail(r->err, QWEN_EUNSUP, role[0] == '\0' ?
		    "message %zu has no role" : "message %zu has the role "
		    "'%s', which the template ignores", i + 1, role);
	}
	return 0;
}

/* --------------------------------------------------------------- variables */

/* Sets all fields as variables; null counts as absent. */
static void
options(struct chat_exec *r, const struct chat_dict *d)
{
	size_t i;
	char *name;

	for (i = 0; i < d->n; i++) {
		const struct chat_text *key = &d->p[i].key.u.s;

		if (d->p[i].v.type == CHAT_NONE)
			continue;
		name = qwen_chat_new(r, key->n + 1, 1);
		if (name == NULL)
			return;
		memcpy(name, key->s, key->n);
		name[key->n] = '\0';
		qwen_chat_set(r, name, d->p[i].v);
	}
}

/*
 * Returns a field of the request or of chat_template_kwargs; NULL if absent or
 * null.
 */
static const struct chat_value *
option(struct chat_exec *r, const struct chat_dict *d, const char *key)
{
	struct chat_value *more = qwen_chat_key(r, d, "chat_template_kwargs");
	struct chat_value *v = qwen_chat_key(r, d, key);

	if (chat_missing(v) && more != NULL && more->type == CHAT_DICT)
		v = qwen_chat_key(r, more->u.d, key);
	return chat_missing(v) ? NULL : v;
}

static void
check_messages(struct chat_exec *r, const struct chat_dict *d,
    struct chat_value **list)
{
	struct chat_value *tools = qwen_chat_key(r, d, "tools");

	*list = qwen_chat_key(r, d, "messages");
	if (*list == NULL || (*list)->type != CHAT_LIST)
		qwen_chat_refuse(r, "the request has no list of messages");
	else if ((*list)->u.l.n == 0)
		qwen_chat_refuse(r, "the request has no messages");
	else if (!chat_missing(tools) && tools->type != CHAT_LIST)
		qwen_chat_refuse(r, "tools is not a list");
}

int
qwen_chat_open_request(struct qwen_chat_request *q, struct chat_exec *r,
    const char *json, size_t n, int parse)
{
	struct chat_value v, *more;
	yyjson_doc *doc;

	if (r->failed || qwen_chat_read(&doc, json, n, "request", r->err) < 0) {
		r->failed = 1;
		return -1;
	}
	if (qwen_chat_keep(q, r, doc) < 0)
		return -1;
	if (!yyjson_is_obj(yyjson_doc_get_root(doc)))
		return qwen_chat_refuse(r, "the request is not a JSON object");
	v = qwen_chat_convert(r, yyjson_doc_get_root(doc), 0);
	if (r->failed)
		return -1;
	check_messages(r, v.u.d, &q->messages);
	if (r->failed)
		return -1;
	messages(q, r, &q->messages->u.l, parse);
	/* transformers always sets these */
	qwen_chat_set(r, "tools", chat_none());
	qwen_chat_set(r, "documents", chat_none());
	qwen_chat_set(r, "add_generation_prompt", chat_bool(1));
	more = qwen_chat_key(r, v.u.d, "chat_template_kwargs");
	if (more != NULL && more->type == CHAT_DICT)
		options(r, more->u.d);
	options(r, v.u.d);
	q->add_prompt = option(r, v.u.d, "add_generation_prompt");
	q->continue_final = option(r, v.u.d, "continue_final_message");
	return r->failed ? -1 : 0;
}

void
qwen_chat_close_request(struct qwen_chat_request *q)
{
	size_t i;

	for (i = 0; i < q->n_doc; i++)
		yyjson_doc_free(q->doc[i]);
	free(q->doc);
}
