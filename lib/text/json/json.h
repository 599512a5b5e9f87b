/* SPDX-License-Identifier: ISC */
/* json.h - JSON from outside, read in one way. */
#ifndef QWEN_TEXT_JSON_JSON_H
#define QWEN_TEXT_JSON_JSON_H

#include "qwentext.h"
#include <yyjson.h>

/*
 * n bytes of JSON, which are only read: numbers stay as they are written, a byte
 * order mark is passed over, and no object has a key twice, since readers differ
 * on which one counts.  Half of a surrogate pair without the other half, as
 * clients send that cut strings, becomes U+FFFD.  For yyjson_doc_free(); or NULL,
 * and err says what is wrong and where.
 */
yyjson_doc *qwen_json_open(const char *json, size_t n, struct qwen_err *err);

/* The same; *halves (or NULL) says whether something became U+FFFD. */
yyjson_doc *qwen_json_open_noted(const char *json, size_t n, int *halves,
    struct qwen_err *err);

/* The same, of objects that may have a key twice. */
yyjson_doc *qwen_json_open_any(const char *json, size_t n, int *halves,
    struct qwen_err *err);

#endif
