/* SPDX-License-Identifier: ISC */
/* ask.c - what requests of all kinds are made of. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"

int
qwen_refuse(struct qwen_refusal *no, const char *code, const char *fmt, ...)
{
	va_list ap;

	if (no->err.code != 0)
		return -1;
	va_start(ap, fmt);
	vsnprintf(no->err.msg, sizeof no->err.msg, fmt, ap);
	va_end(ap);
	no->err.code = QWEN_EFORMAT;
	no->code = code;
	return -1;
}

int
qwen_ask_failed(struct qwen_refusal *no, const char *key,
    const struct qwen_err *err)
{
	return err->code == QWEN_ENOMEM ? qwen_oom(&no->err) :
	    bad(no, "%s: %s", key, err->msg);
}

yyjson_doc *
qwen_ask_open(struct qwen_refusal *no, const char *json, size_t n,
    yyjson_val **root)
{
	yyjson_read_err e;
	yyjson_doc *doc;

	*root = NULL;
	if (json == NULL) {
		qwen_refuse(no, "line_too_long",
		    "the line has more than %zu bytes", n);
		return NULL;
	}
	/* without INSITU it is only read */
	doc = yyjson_read_opts((char *)(uintptr_t)json, n,
	    YYJSON_READ_NUMBER_AS_RAW | YYJSON_READ_ALLOW_BOM, NULL, &e);
	if (doc == NULL && e.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		qwen_oom(&no->err);
	else if (doc == NULL)
		qwen_refuse(no, "invalid_json", "byte %zu: %s", e.pos + 1,
		    e.msg);
	else if (yyjson_is_obj(yyjson_doc_get_root(doc)))
		*root = yyjson_doc_get_root(doc);
	else
		bad(no, "the line is not a JSON object");
	return doc;
}

yyjson_val *
qwen_ask_get(yyjson_val *object, const char *key)
{
	yyjson_val *v = yyjson_obj_get(object, key);

	return yyjson_is_null(v) ? NULL : v;
}

int
qwen_ask_json(struct qwen_refusal *no, yyjson_val *v, char **out, size_t *n)
{
	struct qwen_text t = { 0 };

	if (!yyjson_is_str(v)) {
		*out = yyjson_val_write(v, 0, n);
		return *out != NULL ? 0 : qwen_oom(&no->err);
	}
	/* one way to write it, whatever it came in */
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

int
qwen_ask_id(struct qwen_refusal *no, yyjson_val *root, const char *key,
    int numbers, char **out)
{
	yyjson_val *v = qwen_ask_get(root, key);

	if (v == NULL)
		return 0;
	if (!yyjson_is_str(v) && (!numbers || !yyjson_is_raw(v)))
		return bad(no, numbers ? "%s: is not a string or a number" :
		    "%s: is not a string", key);
	if (yyjson_get_len(v) > 1024)
		return bad(no, "%s: more than 1024 bytes", key);
	return qwen_ask_json(no, v, out, NULL);
}

int
qwen_ask_number(struct qwen_refusal *no, const char *key, yyjson_val *v,
    char buf[QWEN_ASK_NUMBER])
{
	if (!yyjson_is_raw(v) || yyjson_get_len(v) >= QWEN_ASK_NUMBER)
		return bad(no, "%s: is not a number", key);
	memcpy(buf, yyjson_get_raw(v), yyjson_get_len(v));
	buf[yyjson_get_len(v)] = '\0';
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
			return bad(no, "%s: %s is not a token of this model",
			    key, buf);
		out->id[out->n++] = (int32_t)id;
	}
	return 0;
}
