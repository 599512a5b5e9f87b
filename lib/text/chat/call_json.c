/* SPDX-License-Identifier: ISC */
/* call_json.c - calls in JSON: objects with a name and arguments. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/reply.h"
#include "text/chat/request.h"
#include "text/chat/tools.h"

int
qwen_chat_call_key(const char *s, size_t n)
{
	static const struct {
		const char	*name;
		int		 what;
	} keys[] = {
		{ "arguments", 2 }, { "parameters", 2 }, { "input", 2 },
		{ "name", 1 }, { "type", 1 }, { "id", 1 }, { "function", 1 },
	};
	size_t i;

	for (i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (strlen(keys[i].name) == n &&
		    memcmp(keys[i].name, s, n) == 0)
			return keys[i].what;
	}
	return 0;
}

/*
 * Rejects bytes that are not allowed outside of strings. strict: as in JSON,
 * strings contain no control characters.
 */
int
qwen_chat_json_byte(struct chat_json *j, unsigned char b, int strict)
{
	if (j->in_string) {
		if (strict && b < 0x20)
			return -1;
		if (j->escaped)
			j->escaped = 0;
		else if (b == '\\')
			j->escaped = 1;
		else if (b == '"')
			j->in_string = 0;
		return 0;
	}
	if (b == '"')
		j->in_string = 1;
	else if (b == '{' || b == '[')
		j->depth++;
	else if ((b == '}' || b == ']') && j->depth > 0)
		return --j->depth == 0;
	else if (b == '\0' || strchr(strict ?
	    " \t\r\n,:0123456789+-.eEtrufalsn" :
	    " \t\r\n,:0123456789+-.eEtrufalsnTFNo", b) == NULL)
		return -1;
	return 0;
}

/* ----------------------------------------------------------------- contents */

/* The template's form; other fields are ignored. */
static int
is_exact(yyjson_val *v)
{
	yyjson_val *name = yyjson_obj_get(v, "name");

	return yyjson_is_str(name) && yyjson_get_len(name) > 0 &&
	    strlen(yyjson_get_str(name)) == yyjson_get_len(name) &&
	    yyjson_is_obj(yyjson_obj_get(v, "arguments"));
}

/*
 * Finds name and arguments, NULL if absent; returns 0 if there are other
 * fields.
 */
static int
find_name_args(yyjson_val *v, yyjson_val **name, yyjson_val **args)
{
	yyjson_val *key, *x;
	size_t i, n;

	*name = *args = NULL;
	yyjson_obj_foreach(v, i, n, key, x) {
		if (yyjson_equals_str(key, "name"))
			*name = x;
		else if (qwen_chat_call_key(yyjson_get_str(key),
		    yyjson_get_len(key)) == 2) {
			if (*args != NULL)
				return 0;
			*args = x;
		} else if (!yyjson_is_str(x) || (!yyjson_equals_str(key, "id") &&
		    !(yyjson_equals_str(key, "type") &&
		    yyjson_equals_str(x, "function"))))
			return 0;
	}
	return yyjson_is_str(*name);
}

/*
 * Returns the inner object of {"type": "function", "function": {"name": ...}}.
 */
static yyjson_val *
unwrap(yyjson_val *v)
{
	yyjson_val *f = yyjson_obj_get(v, "function"), *key, *x;
	size_t i, n;

	yyjson_obj_foreach(v, i, n, key, x) {
		if (!yyjson_is_obj(f) || (x != f && !(yyjson_is_str(x) &&
		    (yyjson_equals_str(key, "id") ||
		    yyjson_equals_str(key, "type")))))
			return v;
	}
	return f;
}

/*
 * Parses arguments that are a JSON string. 1: *out, to be freed; 0: no object;
 * -1.
 */
static int
read_text(struct qwen_reply *r, yyjson_val *args, yyjson_doc **out)
{
	struct qwen_text t = { 0 };
	int rc = 0;

	*out = NULL;
	if (qwen_chat_fix_json(&t, yyjson_get_str(args), yyjson_get_len(args),
	    0) == 0 && !t.failed && t.n > 0)
		rc = qwen_chat_try_json(out, t.s, t.n, r->err);
	if (rc > 0)
		rc = yyjson_is_obj(yyjson_doc_get_root(*out));
	rc = t.failed ? qwen_oom(r->err) : rc;
	qwen_text_fini(&t);
	return rc;
}

/* Adds a call to the list: 1, or -1. */
static int
add(struct qwen_reply *r, yyjson_mut_doc *d, yyjson_val *name,
    yyjson_val *args)
{
	yyjson_mut_val *v = yyjson_mut_arr_add_obj(d,
	    yyjson_mut_doc_get_root(d));
	yyjson_mut_val *a = args == NULL ? yyjson_mut_obj(d) :
	    yyjson_val_mut_copy(d, args);

	return v != NULL && a != NULL && yyjson_mut_obj_add_val(d, v, "name",
	    yyjson_val_mut_copy(d, name)) &&
	    yyjson_mut_obj_add_val(d, v, "arguments", a) ? 1 :
	    qwen_oom(r->err);
}

static int
add_loose(struct qwen_reply *r, yyjson_val *v, unsigned how,
    yyjson_mut_doc *d)
{
	yyjson_val *name, *args, *tool;
	yyjson_doc *text = NULL;
	int rc;

	if (!find_name_args(unwrap(v), &name, &args))
		return 0;
	tool = qwen_chat_tool(r, yyjson_get_str(name), yyjson_get_len(name));
	if (tool == NULL)
		return 0;
	if (args == NULL && (how & CHAT_NEEDS_ARGS) != 0)
		return 0;
	if (yyjson_is_obj(args))
		return add(r, d, name, args);
	if (args == NULL || yyjson_is_null(args) ||
	    (yyjson_is_str(args) && yyjson_get_len(args) == 0))
		return qwen_chat_has_required(tool) ? 0 : add(r, d, name, NULL);
	if (!yyjson_is_str(args))
		return 0;
	rc = read_text(r, args, &text);
	if (rc > 0)
		rc = add(r, d, name, yyjson_doc_get_root(text));
	yyjson_doc_free(text);
	return rc;
}

/* Adds an object, or the objects of a list. */
static int
add_all(struct qwen_reply *r, yyjson_val *v, unsigned how, yyjson_mut_doc *d)
{
	yyjson_val *x;
	size_t i, n;
	int rc = 0;

	if (yyjson_is_obj(v))
		return (how & CHAT_EXACT) != 0 && is_exact(v) ? add(r, d,
		    yyjson_obj_get(v, "name"), yyjson_obj_get(v, "arguments")) :
		    (how & CHAT_LOOSE) != 0 ? add_loose(r, v, how, d) : 0;
	if ((how & CHAT_LOOSE) == 0)
		return 0;
	yyjson_arr_foreach(v, i, n, x) {
		rc = yyjson_is_arr(x) && (how & CHAT_ITEMS) != 0 ?
		    add_all(r, x, how & ~(unsigned)CHAT_ITEMS, d) :
		    yyjson_is_obj(x) ? add_loose(r, x, how, d) : 0;
		if (rc <= 0)
			break;
	}
	return rc;
}

/* ------------------------------------------------------------------ reading */

/* Parses a text as JSON and collects its calls: 1, 0, -1. */
static int
read(struct qwen_reply *r, const char *s, size_t n, unsigned how,
    yyjson_mut_doc *d)
{
	yyjson_doc *doc;
	int rc = qwen_chat_try_json(&doc, s, n, r->err);

	if (rc > 0)
		rc = add_all(r, yyjson_doc_get_root(doc), how, d);
	yyjson_doc_free(doc);
	return rc;
}

static int
report_all(struct qwen_reply *r, yyjson_mut_val *list)
{
	yyjson_mut_val *v;
	size_t i, n;

	yyjson_mut_arr_foreach(list, i, n, v) {
		if (qwen_chat_report_call(r, yyjson_mut_get_str(
		    yyjson_mut_obj_get(v, "name")),
		    yyjson_mut_obj_get(v, "arguments")) < 0)
			return -1;
	}
	return 1;
}

int
qwen_chat_json_calls(struct qwen_reply *r, const char *s, size_t n,
    unsigned how)
{
	yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *list = yyjson_mut_arr(d);
	struct qwen_text made = { 0 };
	int rc;

	if (list == NULL) {
		yyjson_mut_doc_free(d);
		return qwen_oom(r->err);
	}
	yyjson_mut_doc_set_root(d, list);
	rc = read(r, s, n, how, d);
	if (rc == 0 && (how & CHAT_LOOSE) != 0) {
		yyjson_mut_arr_clear(list);
		if (qwen_chat_fix_json(&made, s, n, 0) == 0 && !made.failed)
			rc = read(r, made.s, made.n, how, d);
		rc = made.failed ? qwen_oom(r->err) : rc;
		qwen_text_fini(&made);
	}
	if (rc > 0)
		rc = report_all(r, list);
	yyjson_mut_doc_free(d);
	return rc;
}

/* --------------------------------------------------------------- truncation */

/* Finds the value of the arguments in an object; returns 0 if there is none. */
static int
find_arguments(const char *s, size_t n, size_t *from, size_t *to)
{
	struct chat_json j = { 0 };
	size_t i, key = 0, end = 0;
	int is_it = 0;

	for (i = 0; i < n; i++) {
		int was = j.in_string;

		if (qwen_chat_json_byte(&j, (unsigned char)s[i], 0) != 0)
			return 0;
		if (is_it && strchr(" \t\r\n", s[i]) == NULL)
			break;
		if (j.in_string && !was)
			key = i + 1;
		else if (was && !j.in_string)
			end = i;
		if (!j.in_string && s[i] == ':' && j.depth == 1)
			is_it |= qwen_chat_call_key(s + key, end - key) == 2;
	}
	for (*from = i; i < n && j.depth > 1; ) {
		if (++i < n && qwen_chat_json_byte(&j, (unsigned char)s[i],
		    0) != 0)
			return 0;
	}
	*to = i < n ? i + 1 : n;
	return is_it;
}

/* Finds a complete name of a tool in a truncated object: 1, 0, -1. */
static int
name_of(struct qwen_reply *r, const struct qwen_text *made, char **name)
{
	struct qwen_text closed = { 0 };
	yyjson_doc *doc = NULL;
	yyjson_val *v;
	int rc;

	qwen_chat_close_json(&closed, made->s, made->n);
	rc = closed.failed ? qwen_oom(r->err) :
	    qwen_chat_try_json(&doc, closed.s, closed.n, r->err);
	v = yyjson_obj_get(yyjson_doc_get_root(doc), "name");
	if (rc > 0 && yyjson_is_str(v) && qwen_chat_tool(r, yyjson_get_str(v),
	    yyjson_get_len(v)) != NULL) {
		*name = strdup(yyjson_get_str(v));
		rc = *name != NULL ? 1 : qwen_oom(r->err);
	} else if (rc > 0)
		rc = 0;
	yyjson_doc_free(doc);
	qwen_text_fini(&closed);
	return rc;
}

/*
 * Copies JSON without white space between tokens, as complete arguments are
 * written.
 */
static void
compact(struct qwen_text *t, const char *s, size_t n)
{
	struct chat_json j = { 0 };
	size_t i;

	for (i = 0; i < n; i++) {
		if (j.in_string || strchr(" \t\r\n", s[i]) == NULL)
			qwen_text_add(t, s + i, 1);
		qwen_chat_json_byte(&j, (unsigned char)s[i], 0);
	}
}

int
qwen_chat_json_cut(struct qwen_reply *r, const char *s, size_t n,
    char **name, struct qwen_text *args)
{
	struct qwen_text made = { 0 };
	size_t from, to;
	int rc = 0;

	*name = NULL;
	if (qwen_chat_fix_json(&made, s, n, 0) >= 0 && !made.failed &&
	    made.n > 0 && made.s[0] == '{')
		rc = name_of(r, &made, name);
	if (rc > 0 && find_arguments(made.s, made.n, &from, &to) &&
	    from < to) {
		if (made.s[from] == '{')
			compact(args, made.s + from, to - from);
		else
			rc = 0;
	}
	if (made.failed || args->failed)
		rc = qwen_oom(r->err);
	if (rc <= 0) {
		free(*name);
		*name = NULL;
	}
	qwen_text_fini(&made);
	return rc;
}
