/* SPDX-License-Identifier: ISC */
/* json.h - replies as JSON. */
#ifndef FETCH_JSON_H
#define FETCH_JSON_H

#include "http.h"
#include "text/json/json.h"

/* The answer to a request as JSON, for yyjson_doc_free(); NULL and cli_err. */
yyjson_doc *fetch_json(const struct http_ask *a, struct http_reply *r);

/* Returns a JSON field that is a string without NUL, or NULL. */
const char *fetch_member(yyjson_val *object, const char *key);

/* Read a JSON field that is a non-negative integer: 1, or 0 if it is not. */
int fetch_number(yyjson_val *object, const char *key, uint64_t *out);

#endif
