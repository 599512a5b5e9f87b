/* SPDX-License-Identifier: ISC */
/*
 * json.c - convert a request in JSON to its CBOR record, so that only one
 * reader has to check requests.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "qengine.h"
#include "text/json/json.h"
#include "wire/put.h"

enum { KEYS_MAX = 23 };

/* Parse a number written as digits only, at most max: 0, or -1. */
static int
get_whole(yyjson_val *v, uint64_t max, uint64_t *out)
{
	const char *s = yyjson_get_raw(v);
	char *end;

	if (s == NULL || s[0] < '0' || s[0] > '9')
		return -1;
	errno = 0;
	*out = strtoull(s, &end, 10);
	return errno != 0 || *end != '\0' || *out > max ? -1 : 0;
}

static int
digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ?
	    c - 'a' + 10 : -1;
}

static int
put_fp(struct qwen_put *p, const char *key, yyjson_val *v)
{
	const char *s = yyjson_get_str(v);
	struct qwen_fp fp;
	size_t i;

	if (s == NULL || yyjson_get_len(v) != 2 * sizeof fp.b)
		return -1;
	for (i = 0; i < sizeof fp.b; i++) {
		if (digit(s[2 * i]) < 0 || digit(s[2 * i + 1]) < 0)
			return -1;
		fp.b[i] = (unsigned char)(digit(s[2 * i]) << 4 |
		    digit(s[2 * i + 1]));
	}
	qwen_put_fp(p, key, &fp);
	return 0;
}

/* Read an id: those of rows are below 0. */
static int
get_id(yyjson_val *v, int32_t *id)
{
	const char *s = yyjson_get_raw(v);
	char *end;
	long n;

	if (s == NULL)
		return -1;
	errno = 0;
	n = strtol(s, &end, 10);
	*id = (int32_t)n;
	return *end == '\0' && errno == 0 && n >= INT32_MIN && n <= INT32_MAX ?
	    0 : -1;
}

/* Add an array of 32-bit numbers. */
static int
put_array(struct qwen_put *p, const char *key, yyjson_val *v, int reals)
{
	size_t i, max, n = yyjson_arr_size(v);
	union { int32_t id; float x; } *a;
	yyjson_val *it;
	int rc = 0;

	if (!yyjson_is_arr(v))
		return -1;
	a = cli_check_alloc(malloc((n + 1) * sizeof *a));
	yyjson_arr_foreach(v, i, max, it) {
		if (rc < 0)
			continue;
		if (!reals) {
			rc = get_id(it, &a[i].id);
		} else if (yyjson_get_raw(it) != NULL)
			a[i].x = strtof(yyjson_get_raw(it), NULL);
		else
			rc = -1;
	}
	if (rc == 0 && reals)
		qwen_put_row(p, key, &a->x, n);
	else if (rc == 0)
		qwen_put_ids(p, key, &a->id, n);
	free(a);
	return rc;
}

/* Add a value of this shape: 0, or -1 if it has another. */
static int
put_value(struct qwen_put *p, const char *key, yyjson_val *v,
    enum qwen_shape shape)
{
	uint64_t u;

	if (shape == QWEN_SHAPE_FP)
		return put_fp(p, key, v);
	if (shape == QWEN_SHAPE_UINT) {
		if (get_whole(v, UINT64_MAX, &u) < 0)
			return -1;
		qwen_put_uint(p, key, u);
	} else if (shape == QWEN_SHAPE_TEXT) {
		if (!yyjson_is_str(v))
			return -1;
		qwen_put_text(p, key, yyjson_get_str(v), yyjson_get_len(v));
	} else
		return put_array(p, key, v, shape != QWEN_SHAPE_IDS);
	return 0;
}

static int
put_pair(struct qwen_put *p, yyjson_val *k, yyjson_val *v,
    struct qwen_err *err)
{
	static const char *const names[] = {
		[QWEN_SHAPE_UINT] = "a whole number",
		[QWEN_SHAPE_TEXT] = "text",
		[QWEN_SHAPE_FP] = "32 hexadecimal digits",
		[QWEN_SHAPE_IDS] = "an array of whole numbers",
		[QWEN_SHAPE_ROW] = "an array of numbers",
	};
	const char *key = yyjson_get_str(k);
	enum qwen_shape shape;

	if (!qwen_engine_request_shape(key, yyjson_get_len(k), &shape))
		return qwen_fail(err, QWEN_EUNSUP, "unknown key "
		    "\"%.40s\"", key);
	return put_value(p, key, v, shape) == 0 ? 0 : qwen_fail(err,
	    QWEN_EFORMAT, "key \"%s\" is not %s", key, names[shape]);
}

static int
convert(struct qwen_put *p, yyjson_val *root, struct qwen_err *err)
{
	yyjson_val *k, *v;
	size_t i, max;

	if (!yyjson_is_obj(root) || yyjson_obj_size(root) > KEYS_MAX)
		return qwen_fail(err, QWEN_EFORMAT, "not an object of at most "
		    "%d fields", KEYS_MAX);
	yyjson_obj_foreach(root, i, max, k, v) {
		if (put_pair(p, k, v, err) < 0)
			return -1;
	}
	return 0;
}

int
qengine_from_json(struct qwen_text *out, const unsigned char *line, size_t n,
    char id[QWEN_ENGINE_ID + 1], struct qwen_err *err)
{
	struct qwen_put p = { .t = out };
	yyjson_doc *doc;
	yyjson_val *v;
	int rc;

	id[0] = '\0';
	if ((doc = qwen_json_open((const char *)line, n, err)) == NULL)
		return -1;
	v = yyjson_obj_get(yyjson_doc_get_root(doc), "id");
	if (yyjson_is_str(v) && yyjson_get_len(v) <= QWEN_ENGINE_ID &&
	    strlen(yyjson_get_str(v)) == yyjson_get_len(v))
		memcpy(id, yyjson_get_str(v), yyjson_get_len(v) + 1);
	qwen_put_begin(&p);
	rc = convert(&p, yyjson_doc_get_root(doc), err);
	qwen_put_end(&p);
	yyjson_doc_free(doc);
	return rc < 0 ? rc : out->failed ? qwen_oom(err) : 0;
}
