/* SPDX-License-Identifier: ISC */
/* json.h - what hubs tell as JSON. */
#ifndef FETCH_JSON_H
#define FETCH_JSON_H

#include "http.h"
#include "text/json/json.h"

/* The answer to a request as JSON, for yyjson_doc_free(); NULL and cli_err. */
yyjson_doc *fetch_json(const struct http_ask *a, struct http_reply *r);

/* A member that is a text without a NUL in it, or NULL. */
const char *fetch_member(yyjson_val *object, const char *key);

/* A member that is a whole number from 0 on: 1; 0 if it is none. */
int fetch_number(yyjson_val *object, const char *key, uint64_t *out);

#endif
