/* SPDX-License-Identifier: ISC */
/* common.c - functions for all kinds of requests. */
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

static int
refuse(struct qwen_refusal *refusal, const char *code, const char *param,
    size_t n, const char *fmt, va_list ap)
{
	if (refusal->err.code != 0)
		return -1;
	refusal->err.msg[0] = '\0';
	if (n > 0)
		snprintf(refusal->err.msg, n + 1, "%s: ", param);
	vsnprintf(refusal->err.msg + n, sizeof refusal->err.msg - n, fmt, ap);
	refusal->err.code = QWEN_EFORMAT;
	refusal->code = code;
	refusal->param = param;
	return -1;
}

int
qwen_refuse(struct qwen_refusal *refusal, const char *code, const char *param,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(refusal, code, param, 0, fmt, ap);
	va_end(ap);
	return -1;
}

int
qwen_refuse_field(struct qwen_refusal *refusal, const char *param,
    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	refuse(refusal, "invalid_request", param, param != NULL ?
	    strlen(param) + 2 : 0, fmt, ap);
	va_end(ap);
	return -1;
}

void
qwen_refusal_rename(struct qwen_refusal *refusal, const char *const *names)
{
	size_t len = refusal->param != NULL ? strlen(refusal->param) : 0;
	char rest[sizeof refusal->err.msg];

	for (; names != NULL && names[0] != NULL && len > 0; names += 2) {
		if (strcmp(refusal->param, names[0]) != 0)
			continue;
		refusal->param = names[1];
		if (strncmp(refusal->err.msg, names[0], len) != 0)
			return;
		memcpy(rest, refusal->err.msg + len, sizeof rest - len);
		snprintf(refusal->err.msg, sizeof refusal->err.msg, "%s%s",
		    refusal->param, rest);
		return;
	}
}

int
qwen_refusal_oom(const struct qwen_refusal *refusal, struct qwen_err *err)
{
	return refusal->err.code == QWEN_ENOMEM ? qwen_oom(err) : 0;
}

int
qwen_refuse_error(struct qwen_refusal *refusal, const char *key,
    const struct qwen_err *err)
{
	return err->code == QWEN_ENOMEM ? qwen_oom(&refusal->err) :
	    qwen_refuse_field(refusal, key, "%s", err->msg);
}

int
qwen_refuse_long(struct qwen_refusal *refusal, size_t n)
{
	return qwen_refuse(refusal, "line_too_long", NULL,
	    "the line has more than %zu bytes", n);
}

static yyjson_doc *
open_object(struct qwen_refusal *refusal, const char *json, size_t n,
    int *surrogates, yyjson_val **root)
{
	struct qwen_err err;
	yyjson_doc *doc;

	*root = NULL;
	if (json == NULL) {
		qwen_refuse_long(refusal, n);
		return NULL;
	}
	doc = surrogates != NULL ? qwen_json_open_mended(json, n, surrogates,
	    &err) : qwen_json_open(json, n, &err);
	if (doc == NULL && err.code == QWEN_ENOMEM)
		qwen_oom(&refusal->err);
	else if (doc == NULL)
		qwen_refuse(refusal, "invalid_json", NULL, "%s", err.msg);
	else if (yyjson_is_obj(yyjson_doc_get_root(doc)))
		*root = yyjson_doc_get_root(doc);
	else
		qwen_refuse_invalid(refusal, NULL, "the request is not a JSON "
		    "object");
	return doc;
}

yyjson_doc *
qwen_parse_open(struct qwen_refusal *refusal, const char *json, size_t n,
    yyjson_val **root)
{
	return open_object(refusal, json, n, NULL, root);
}

yyjson_doc *
qwen_parse_open_mended(struct qwen_refusal *refusal, struct qwen_unknown *u,
    const char *json, size_t n, yyjson_val **root)
{
	int surrogates = 0;
	yyjson_doc *doc = open_object(refusal, json, n, &surrogates, root);

	if (surrogates)
		qwen_unknown_note(u, "%s", qwen_note_surrogates());
	return doc;
}

yyjson_val *
qwen_parse_get(yyjson_val *object, const char *key)
{
	yyjson_val *v = yyjson_obj_get(object, key);

	return yyjson_is_null(v) ? NULL : v;
}

yyjson_val *
qwen_parse_get_text(yyjson_val *object, const char *key)
{
	yyjson_val *v = yyjson_obj_get(object, key);

	return yyjson_is_str(v) ? v : NULL;
}

int
qwen_parse_has_type(yyjson_val *object, const char *type)
{
	return yyjson_equals_str(yyjson_obj_get(object, "type"), type);
}

int
qwen_parse_to_json(struct qwen_refusal *refusal, yyjson_val *v, char **out)
{
	struct qwen_text t = { 0 };

	qwen_json_value(&t, v);
	if (t.failed) {
		qwen_text_fini(&t);
		return qwen_oom(&refusal->err);
	}
	*out = t.s;
	return 0;
}

int
qwen_parse_model(struct qwen_refusal *refusal, yyjson_val *root, char **out)
{
	yyjson_val *model = qwen_parse_get(root, "model");

	if (model == NULL)
		return 0;
	if (!yyjson_is_str(model))
		return qwen_refuse_field(refusal, "model", "is not a string");
	return qwen_parse_to_json(refusal, model, out);
}

struct qwen_str
qwen_parse_str(yyjson_val *v)
{
	const char *s = yyjson_get_str(v);

	return (struct qwen_str){ s, s != NULL ? yyjson_get_len(v) : 0 };
}

int
qwen_parse_string(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, struct qwen_str *out)
{
	yyjson_val *v = qwen_parse_get(object, key);

	if (v != NULL && !yyjson_is_str(v))
		return qwen_refuse_field(refusal, key, "is not a string");
	if (v != NULL)
		*out = qwen_parse_str(v);
	return v != NULL;
}

int
qwen_parse_truth(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, int usual)
{
	yyjson_val *v = qwen_parse_get(object, key);

	if (v != NULL && !yyjson_is_bool(v))
		return qwen_refuse_field(refusal, key, "is not true or false");
	return v != NULL ? yyjson_is_true(v) : usual;
}

int
qwen_parse_number_of(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, char out[QWEN_NUMBER_SIZE])
{
	yyjson_val *v = qwen_parse_get(object, key);

	if (v == NULL)
		return 0;
	return qwen_parse_number(refusal, key, v, out) < 0 ? -1 : 1;
}

int
qwen_parse_whole(struct qwen_refusal *refusal, yyjson_val *object,
    const char *key, int64_t min, int64_t max, int64_t *out)
{
	char buf[QWEN_NUMBER_SIZE];
	int got = qwen_parse_number_of(refusal, object, key, buf);
	uint64_t n;

	if (got <= 0)
		return got;
	if (qwen_parse_digits(buf, strlen(buf), &n) == 0 && (int64_t)n >= min &&
	    (int64_t)n <= max) {
		*out = (int64_t)n;
		return 1;
	}
	return max == INT64_MAX ? qwen_refuse_field(refusal, key, "%s is not a "
	    "whole number of at least %lld", buf, (long long)min) :
	    qwen_refuse_field(refusal, key, "%s is not a whole number from "
	    "%lld to %lld", buf, (long long)min, (long long)max);
}

void
qwen_parse_copy(struct qwen_text *t, yyjson_val *object, const char *key,
    const char *as)
{
	yyjson_val *v = qwen_parse_get(object, key);

	if (v != NULL)
		qwen_json_put(t, ",'%s':%p", as, v);
}

int
qwen_parse_each(struct qwen_parser *r, const char *begin, yyjson_val *list,
    int (*read)(struct qwen_parser *r, yyjson_val *v), const char *end)
{
	yyjson_val *v;
	size_t i, n;

	qwen_json_put(&r->out, begin);
	yyjson_arr_foreach(list, i, n, v) {
		r->nth = i;
		if (read(r, v) < 0)
			return -1;
	}
	qwen_text_str(&r->out, end);
	return 0;
}

int
qwen_parse_keep_text(struct qwen_parser *r, struct qwen_text *t, char **to)
{
	qwen_text_str(t, "");
	if (t->failed) {
		qwen_text_fini(t);
		return qwen_oom(&r->refusal->err);
	}
	*to = t->s;
	r->q->n_bytes += t->n;
	*t = (struct qwen_text){ 0 };
	return 0;
}

int
qwen_parse_replace_body(struct qwen_parser *r)
{
	yyjson_doc_free(r->doc);
	r->doc = NULL;
	r->body = NULL;
	if (r->out.failed)
		qwen_oom(&r->refusal->err);
	else
		r->doc = qwen_parse_open(r->refusal, r->out.s, r->out.n,
		    &r->body);
	qwen_text_fini(&r->out);
	return r->body != NULL ? 0 : -1;
}

int
qwen_parse_id(struct qwen_refusal *refusal, yyjson_val *root, const char *key,
    int numbers, char **out)
{
	yyjson_val *v = qwen_parse_get(root, key);

	if (v == NULL)
		return 0;
	if (!yyjson_is_str(v) && (!numbers || !yyjson_is_raw(v)))
		return qwen_refuse_field(refusal, key, "is not a string%s",
		    numbers ? " or a number" : "");
	if (yyjson_get_len(v) > 1024)
		return qwen_refuse_field(refusal, key, "more than 1024 bytes");
	return qwen_parse_to_json(refusal, v, out);
}

static int
no_number(struct qwen_refusal *refusal, const char *key, yyjson_val *v)
{
	const char *s = yyjson_get_str(v);

	if (yyjson_is_str(v))
		return qwen_refuse_field(refusal, key, "\"%.40s\" is not a "
		    "number", s);
	if (yyjson_is_raw(v))
		return qwen_refuse_field(refusal, key, "%.20s... has %zu "
		    "digits", yyjson_get_raw(v), yyjson_get_len(v));
	return qwen_refuse_field(refusal, key, "%s is not a number",
	    yyjson_is_bool(v) ? yyjson_get_bool(v) ? "true" : "false" :
	    yyjson_is_arr(v) ? "a list" : yyjson_is_obj(v) ? "an object" :
	    "null");
}

int
qwen_parse_number(struct qwen_refusal *refusal, const char *key, yyjson_val *v,
    char buf[QWEN_NUMBER_SIZE])
{
	double x;

	if (!yyjson_is_raw(v) || yyjson_get_len(v) >= QWEN_NUMBER_SIZE)
		return no_number(refusal, key, v);
	memcpy(buf, yyjson_get_raw(v), yyjson_get_len(v));
	buf[yyjson_get_len(v)] = '\0';
	/* programs that have only floating-point numbers write 2 as 2.0 */
	x = strtod(buf, NULL);
	if (buf[strcspn(buf, ".eE")] != '\0' && fabs(x) <= 0x1p53 &&
	    x == floor(x))
		snprintf(buf, QWEN_NUMBER_SIZE, "%lld", (long long)x);
	return 0;
}

int
qwen_parse_digits(const char *s, size_t n, uint64_t *out)
{
	size_t i;

	*out = 0;
	for (i = 0; i < n && s[i] >= '0' && s[i] <= '9'; i++)
		*out = *out * 10 + (uint64_t)(s[i] - '0');
	return n > 0 && i == n && n <= 18 ? 0 : -1;
}

int
qwen_parse_encode(struct qwen_refusal *refusal, const char *key,
    const struct qwen_tok *tok, unsigned flags, const char *s, size_t n,
    struct qwen_ids *out)
{
	struct qwen_err err;

	return qwen_tok_encode(tok, s, n, flags, &out->id, &out->n, &err) < 0 ?
	    qwen_refuse_error(refusal, key, &err) : 0;
}

int
qwen_parse_ids(struct qwen_refusal *refusal, const char *key, yyjson_val *v,
    size_t n_vocab, struct qwen_ids *out)
{
	char buf[QWEN_NUMBER_SIZE];
	yyjson_val *one;
	size_t i, n;
	uint64_t id;

	out->n = 0;
	out->id = calloc(yyjson_arr_size(v) + 1, sizeof *out->id);
	if (out->id == NULL)
		return qwen_oom(&refusal->err);
	yyjson_arr_foreach(v, i, n, one) {
		if (qwen_parse_number(refusal, key, one, buf) < 0)
			break;
		if (qwen_parse_digits(buf, strlen(buf), &id) < 0 ||
		    id >= n_vocab) {
			qwen_refuse_field(refusal, key, "%s is not a token of "
			    "this model", buf);
			break;
		}
		out->id[out->n++] = (int32_t)id;
	}
	if (i == n)
		return 0;
	free(out->id);
	*out = (struct qwen_ids){ 0 };
	return -1;
}
