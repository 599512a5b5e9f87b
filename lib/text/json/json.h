/* SPDX-License-Identifier: ISC */
/* json.h - JSON from outside, read in one way. */
#ifndef QWEN_TEXT_JSON_JSON_H
#define QWEN_TEXT_JSON_JSON_H

#include "qwentext.h"
#include <yyjson.h>

/*
 * n bytes of JSON, which are only read: numbers stay as they are written, a byte
 * order mark is passed over, and no object has a key twice, since readers differ
 * on which one counts.  For yyjson_doc_free(); or NULL, and err says what is
 * wrong and where.
 */
yyjson_doc *qwen_json_open(const char *json, size_t n, struct qwen_err *err);

/*
 * The same, where half of a surrogate pair without the other half becomes U+FFFD:
 * clients that cut strings send that.  *halves says whether there was one.
 */
yyjson_doc *qwen_json_open_mended(const char *json, size_t n, int *halves,
    struct qwen_err *err);

/* The same, of objects that may have a key twice. */
yyjson_doc *qwen_json_open_any(const char *json, size_t n,
    struct qwen_err *err);

/* The part of a JSON Schema that its own $ref names, as "#/$defs/x"; or itself. */
yyjson_val *qwen_json_top(yyjson_val *schema);

#endif
