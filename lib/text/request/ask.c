/* SPDX-License-Identifier: ISC */
/* ask.c - functions for all kinds of requests. */
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/json/json.h"
#include "text/request/ask.h"

static int
refuse(struct qwen_refusal *no, const char *code, const char *param, size_t n,
    const char *fmt, va_list ap)
{
	if (no->err.code != 0)
		return -1;
	no->err.msg[0] = '\0';
	if (n > 0)
		snprintf(no->err.msg, n + 1, "%s: ", param);
	vsnprintf(no->err.msg + n, sizeof no->err.msg - n, fmt, ap);
	no->err.code = QWEN_EFORMAT;
	no->code = code;
	no->param = param;
	return -1;
}

int
qwen_refuse(struct qwen_refusal *no, const char *code, const char *param,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(no, code, param, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int
qwen_ask_wrong(struct qwen_refusal *no, const char *param, const char *fmt,
    ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(no, "invalid_request", param, strlen(param) + 2, fmt, ap);
	va_end(ap);
	return -1;
}

void
qwen_ask_rename(struct qwen_refusal *no, const char *const names[][2],
    size_t n)
{
	size_t i, len = no->param != NULL ? strlen(no->param) : 0;
	char rest[sizeof no->err.msg];

	for (i = 0; i < n && len > 0; i++) {
		if (strcmp(no->param, names[i][0]) != 0)
			continue;
		no->param = names[i][1];
		if (strncmp(no->err.msg, names[i][0], len) != 0)
			return;
		memcpy(rest, no->err.msg + len, sizeof rest - len);
		snprintf(no->err.msg, sizeof no->err.msg, "%s%s", no->param,
		    rest);
		return;
	}
}

int
qwen_ask_failed(struct qwen_refusal *no, const char *key,
    const struct qwen_err *err)
{
	return err->code == QWEN_ENOMEM ? qwen_oom(&no->err) :
	    wrong(no, key, "%s", err->msg);
}

static yyjson_doc *
open_object(struct qwen_refusal *no, const char *json, size_t n, int *halves,
    yyjson_val **root)
{
	struct qwen_err err;
	yyjson_doc *doc;

	*root = NULL;
	if (json == NULL) {
		qwen_refuse(no, "line_too_long", NULL,
		    "the line has more than %zu bytes", n);
		return NULL;
	}
	doc = halves != NULL ? qwen_json_open_mended(json, n, halves, &err) :
	    qwen_json_open(json, n, &err);
	if (doc == NULL && err.code == QWEN_ENOMEM)
		qwen_oom(&no->err);
	else if (doc == NULL)
		qwen_refuse(no, "invalid_json", NULL, "%s", err.msg);
	else if (yyjson_is_obj(yyjson_doc_get_root(doc)))
		*root = yyjson_doc_get_root(doc);
	else
		bad(no, NULL, "the request is not a JSON object");
	return doc;
}

yyjson_doc *
qwen_ask_open(struct qwen_refusal *no, const char *json, size_t n,
    yyjson_val **root)
{
	return open_object(no, json, n, NULL, root);
}

yyjson_doc *
qwen_ask_open_mended(struct qwen_refusal *no, struct qwen_unknown *u,
    const char *json, size_t n, yyjson_val **root)
{
	int halves = 0;
	yyjson_doc *doc = open_object(no, json, n, &halves, root);

	if (halves)
		qwen_unknown_note(u, "%s", qwen_note_halves());
	return doc;
}

yyjson_val *
qwen_ask_get(yyjson_val *object, const char *key)
{
	yyjson_val *v = yyjson_obj_get(object, key);

	return yyjson_is_null(v) ? NULL : v;
}

yyjson_val *
qwen_ask_text(yyjson_val *object, const char *key)
{
	yyjson_val *v = yyjson_obj_get(object, key);

	return yyjson_is_str(v) ? v : NULL;
}

int
qwen_ask_is(yyjson_val *object, const char *type)
{
	return yyjson_equals_str(yyjson_obj_get(object, "type"), type);
}

int
qwen_ask_json(struct qwen_refusal *no, yyjson_val *v, char **out, size_t *n)
{
	struct qwen_text t = { 0 };

	if (!yyjson_is_str(v)) {
		*out = yyjson_val_write(v, 0, n);
		return *out != NULL ? 0 : qwen_oom(&no->err);
	}
	/* always the same escapes, whatever the request has */
	qwen_text_json(&t, yyjson_get_str(v), yyjson_get_len(v));
	if (t.failed) {
		qwen_text_fini(&t);
		return qwen_oom(&no->err);
	}
	*out = t.s;
	if (n != NULL)
		*n = t.n;
	return 0;
}

void
qwen_ask_write(struct qwen_text *t, yyjson_val *v)
{
	char *json;
	size_t n;

	if (yyjson_is_str(v)) {
		qwen_text_json(t, yyjson_get_str(v), yyjson_get_len(v));
		return;
	}
	if ((json = yyjson_val_write(v, 0, &n)) == NULL) {
		t->failed = 1;
		return;
	}
	qwen_text_add(t, json, n);
	free(json);
}

void
qwen_ask_write_key(struct qwen_text *t, size_t i, const char *key, size_t n)
{
	qwen_text_str(t, i > 0 ? "," : "{");
	qwen_text_json(t, key, n);
	qwen_text_str(t, ":");
}

int
qwen_ask_rewrite(struct qwen_ask *r, struct qwen_text *t)
{
	yyjson_doc_free(r->doc);
	r->doc = NULL;
	r->body = NULL;
	if (t->failed)
		qwen_oom(&r->no->err);
	else
		r->doc = qwen_ask_open(r->no, t->s, t->n, &r->body);
	qwen_text_fini(t);
	return r->body != NULL ? 0 : -1;
}

int
qwen_ask_id(struct qwen_refusal *no, yyjson_val *root, const char *key,
    int numbers, char **out)
{
	yyjson_val *v = qwen_ask_get(root, key);

	if (v == NULL)
		return 0;
	if (!yyjson_is_str(v) && (!numbers || !yyjson_is_raw(v)))
		return wrong(no, key, "is not a string%s",
		    numbers ? " or a number" : "");
	if (yyjson_get_len(v) > 1024)
		return wrong(no, key, "more than 1024 bytes");
	return qwen_ask_json(no, v, out, NULL);
}

static int
no_number(struct qwen_refusal *no, const char *key, yyjson_val *v)
{
	const char *s = yyjson_get_str(v);

	if (yyjson_is_str(v))
		return wrong(no, key, "\"%.40s\" is not a number", s);
	if (yyjson_is_raw(v))
		return wrong(no, key, "%.20s... has %zu digits",
		    yyjson_get_raw(v), yyjson_get_len(v));
	return wrong(no, key, "%s is not a number", yyjson_is_bool(v) ?
	    yyjson_get_bool(v) ? "true" : "false" : yyjson_is_arr(v) ?
	    "a list" : yyjson_is_obj(v) ? "an object" : "null");
}

int
qwen_ask_number(struct qwen_refusal *no, const char *key, yyjson_val *v,
    char buf[QWEN_ASK_NUMBER])
{
	double x;

	if (!yyjson_is_raw(v) || yyjson_get_len(v) >= QWEN_ASK_NUMBER)
		return no_number(no, key, v);
	memcpy(buf, yyjson_get_raw(v), yyjson_get_len(v));
	buf[yyjson_get_len(v)] = '\0';
	/* programs that have only floating-point numbers write 2 as 2.0 */
	x = strtod(buf, NULL);
	if (buf[strcspn(buf, ".eE")] != '\0' && fabs(x) <= 0x1p53 &&
	    x == floor(x))
		snprintf(buf, QWEN_ASK_NUMBER, "%lld", (long long)x);
	return 0;
}

int
qwen_ask_digits(const char *s, size_t n, uint64_t *out)
{
	size_t i;

	*out = 0;
	for (i = 0; i < n && s[i] >= '0' && s[i] <= '9'; i++)
		*out = *out * 10 + (uint64_t)(s[i] - '0');
	return n > 0 && i == n && n <= 18 ? 0 : -1;
}

int
qwen_ask_encode(struct qwen_refusal *no, const char *key,
    const struct qwen_tok *tok, unsigned flags, const char *s, size_t n,
    struct qwen_ids *out)
{
	struct qwen_err err;

	return qwen_tok_encode(tok, s, n, flags, &out->id, &out->n, &err) < 0 ?
	    qwen_ask_failed(no, key, &err) : 0;
}

int
qwen_ask_ids(struct qwen_refusal *no, const char *key, yyjson_val *v,
    size_t n_vocab, struct qwen_ids *out)
{
	char buf[QWEN_ASK_NUMBER];
	yyjson_val *one;
	size_t i, n;
	uint64_t id;

	out->n = 0;
	out->id = calloc(yyjson_arr_size(v) + 1, sizeof *out->id);
	if (out->id == NULL)
		return qwen_oom(&no->err);
	yyjson_arr_foreach(v, i, n, one) {
		if (qwen_ask_number(no, key, one, buf) < 0)
			return -1;
		if (qwen_ask_digits(buf, strlen(buf), &id) < 0 ||
		    id >= n_vocab)
			return wrong(no, key, "%s is not a token of this "
			    "model", buf);
		out->id[out->n++] = (int32_t)id;
	}
	return 0;
}
