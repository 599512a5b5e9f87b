/* SPDX-License-Identifier: ISC */
/*
 * json.h - parses JSON from outside with the same rules everywhere, and writes
 * JSON.
 */
#ifndef QWEN_TEXT_JSON_JSON_H
#define QWEN_TEXT_JSON_JSON_H

#include "base/text.h"
#include "qwentext.h"
#include <yyjson.h>

/*
 * Parses n bytes of JSON without writing to them.  Numbers stay strings of
 * their digits, a byte order mark is skipped, and duplicate keys are an error,
 * since readers differ on which one counts.  The caller frees the result with
 * yyjson_doc_free().  NULL: err says what is wrong and where.
 */
yyjson_doc *qwen_json_open(const char *json, size_t n, struct qwen_err *err);

/*
 * The same, but U+FFFD replaces half a surrogate pair without its other half,
 * which clients that truncate strings send. *surrogates is 1 if there was one.
 */
yyjson_doc *qwen_json_open_mended(const char *json, size_t n, int *surrogates,
    struct qwen_err *err);

/* The same as qwen_json_open_mended, but allows duplicate keys. */
yyjson_doc *qwen_json_open_any(const char *json, size_t n,
    struct qwen_err *err);

/*
 * Returns the part of a JSON Schema that its top-level $ref names, such as
 * "#/$defs/x"; without $ref, the schema.
 */
yyjson_val *qwen_json_resolve_top(yyjson_val *schema);

/* Appends a value as JSON; NULL is null. */
void qwen_json_value(struct qwen_text *t, yyjson_val *v);

/*
 * Appends compact JSON with a space after each comma and colon, as templates
 * write it.
 */
void qwen_json_spaced(struct qwen_text *t, struct qwen_str json);

/*
 * Appends JSON by a format that looks like it: ' stands for the quotes, and
 *
 *	'%s'	is a JSON string, with escapes; or null for NULL
 *	%s	is text as it is; "" for nothing
 *	%p	is a JSON value (yyjson_val *); or null for NULL
 *	%pS	is a JSON string (const struct qwen_str *); or null for NULL
 *	%pT	is a JSON string (const struct qwen_text *); if memory ran out
 *		for it, t fails too
 *
 * %d, %u, %f and %g are as in printf(3), without width; so the compiler checks
 * the arguments.  A comma at the start of the format is left out at the start
 * of t and after [, { or :.  So the first element of a list and the only value
 * of a field are written like all others.
 */
void qwen_json_put(struct qwen_text *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends n bytes in base64, without quotes. */
void qwen_json_base64(struct qwen_text *t, const void *bytes, size_t n);

#endif
