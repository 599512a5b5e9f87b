/* SPDX-License-Identifier: ISC */
/* json.c - parses JSON from outside with the same rules everywhere. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/json/json.h"

/* Up to this many keys are compared in pairs. */
enum { FEW = 8 };

static int
compare(const void *a, const void *b)
{
	yyjson_val *const *x = a, *const *y = b;
	size_t n = yyjson_get_len(*x), m = yyjson_get_len(*y);

	return n != m ? (n > m) - (n < m) :
	    memcmp(yyjson_get_str(*x), yyjson_get_str(*y), n);
}

/* Returns a duplicate among the keys, or NULL. */
static yyjson_val *
twice(yyjson_val **key, size_t n)
{
	size_t i, k;

	if (n > FEW) {
		qsort(key, n, sizeof *key, compare);
		for (i = 1; i < n; i++) {
			if (compare(&key[i - 1], &key[i]) == 0)
				return key[i];
		}
		return NULL;
	}
	for (i = 1; i < n; i++) {
		for (k = 0; k < i; k++) {
			if (compare(&key[k], &key[i]) == 0)
				return key[i];
		}
	}
	return NULL;
}

/* Fails if an object has a duplicate key. */
static int
check(yyjson_doc *doc, struct qwen_err *err)
{
	yyjson_val *v = yyjson_doc_get_root(doc), *key, *member, **keys = NULL;
	size_t left = yyjson_doc_get_val_count(doc), cap = 0, i, n;
	int rc = 0;

	/* yyjson stores all values of a document in one array */
	for (; left > 0 && rc == 0; left--, v++) {
		if (yyjson_obj_size(v) < 2)
			continue;
		if (qwen_grow(&keys, &cap, yyjson_obj_size(v),
		    sizeof *keys) < 0) {
			rc = qwen_oom(err);
			break;
		}
		yyjson_obj_foreach(v, i, n, key, member)
			keys[i] = key;
		if ((key = twice(keys, n)) != NULL)
			rc = qwen_fail(err, QWEN_EFORMAT, "duplicate key "
			    "\"%.60s\"", yyjson_get_str(key));
	}
	free(keys);
	return rc;
}

/* Reports where yyjson stopped: the byte, and the line if there are several. */
static void
say_where(const char *json, const yyjson_read_err *e, struct qwen_err *err)
{
	size_t i, line = 1, from = 0;

	for (i = 0; i < e->pos; i++) {
		if (json[i] == '\n') {
			line++;
			from = i + 1;
		}
	}
	if (line == 1)
		qwen_fail(err, QWEN_EFORMAT, "invalid JSON at byte %zu: %s",
		    e->pos + 1, e->msg);
	else
		qwen_fail(err, QWEN_EFORMAT, "invalid JSON at line %zu, byte "
		    "%zu: %s", line, e->pos - from + 1, e->msg);
}

/* Returns 1 if s, n bytes, begins with \u and a number from low to high. */
static int
is_unit(const char *s, size_t n, uint32_t low, uint32_t high)
{
	uint32_t u;

	return n >= 6 && s[0] == '\\' && s[1] == 'u' &&
	    qwen_hex_read(s + 2, 4, &u) == 0 && u >= low && u <= high;
}

/*
 * Replaces each half of a surrogate pair that stands alone by U+FFFD; returns
 * their number.  If out is NULL, only counts them.
 */
static size_t
replace_surrogates(const char *json, size_t n, char *out)
{
	size_t i, k, found = 0;

	for (i = 0; i < n; i += k) {
		k = json[i] == '\\' ? 2 : 1;
		if (k == 1 || !is_unit(json + i, n - i, 0xd800, 0xdfff))
			continue;
		k = 6;
		if (is_unit(json + i, n - i, 0xd800, 0xdbff) &&
		    is_unit(json + i + 6, n - i - 6, 0xdc00, 0xdfff))
			k = 12;
		else {
			found++;
			if (out != NULL)
				memcpy(out + i + 2, "fffd", 4);
		}
	}
	return found;
}

static yyjson_doc *
parse(const char *json, size_t n, yyjson_read_err *e)
{
	size_t bom = n >= 3 && memcmp(json, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	/* without YYJSON_READ_INSITU, yyjson does not write to the text */
	yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)(json + bom),
	    n - bom, YYJSON_READ_NUMBER_AS_RAW, NULL, e);

	if (doc == NULL)
		e->pos += bom;
	return doc;
}

/* Parses again with U+FFFD for halves of pairs; NULL if there are none. */
static yyjson_doc *
parse_again(const char *json, size_t n, yyjson_read_err *e)
{
	yyjson_doc *doc;
	char *copy;

	if (replace_surrogates(json, n, NULL) == 0)
		return NULL;
	if ((copy = malloc(n)) == NULL) {
		e->code = YYJSON_READ_ERROR_MEMORY_ALLOCATION;
		return NULL;
	}
	memcpy(copy, json, n);
	replace_surrogates(json, n, copy);
	doc = parse(copy, n, e);
	free(copy);
	return doc;
}

static yyjson_doc *
open_json(const char *json, size_t n, int strict, int *surrogates,
    struct qwen_err *err)
{
	yyjson_read_err e;
	yyjson_doc *doc = parse(json, n, &e);
	int again = doc == NULL && !strict &&
	    e.code == YYJSON_READ_ERROR_INVALID_STRING;

	if (again)
		doc = parse_again(json, n, &e);
	*surrogates = again && doc != NULL;
	if (doc == NULL && e.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		qwen_oom(err);
	else if (doc == NULL)
		say_where(json, &e, err);
	return doc;
}

static yyjson_doc *
checked(yyjson_doc *doc, struct qwen_err *err)
{
	if (doc == NULL || check(doc, err) == 0)
		return doc;
	yyjson_doc_free(doc);
	return NULL;
}

yyjson_doc *
qwen_json_open(const char *json, size_t n, struct qwen_err *err)
{
	int surrogates;

	return checked(open_json(json, n, 1, &surrogates, err), err);
}

yyjson_doc *
qwen_json_open_mended(const char *json, size_t n, int *surrogates,
    struct qwen_err *err)
{
	return checked(open_json(json, n, 0, surrogates, err), err);
}

yyjson_doc *
qwen_json_open_any(const char *json, size_t n, struct qwen_err *err)
{
	int surrogates;

	return open_json(json, n, 0, &surrogates, err);
}

yyjson_val *
qwen_json_resolve_top(yyjson_val *schema)
{
	yyjson_val *at = schema, *to;
	const char *ref;
	int left;

	for (left = 8; left > 0; left--) {
		ref = yyjson_get_str(yyjson_obj_get(at, "$ref"));
		to = ref != NULL && ref[0] == '#' && ref[1] == '/' ?
		    yyjson_ptr_get(schema, ref + 1) : NULL;
		if (to == NULL)
			break;
		at = to;
	}
	return at;
}
