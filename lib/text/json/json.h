/* SPDX-License-Identifier: ISC */
/* json.h - parses JSON from outside with the same rules everywhere. */
#ifndef QWEN_TEXT_JSON_JSON_H
#define QWEN_TEXT_JSON_JSON_H

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

#endif
