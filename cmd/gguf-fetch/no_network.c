/* SPDX-License-Identifier: ISC */
/* no_network.c - what needs libcurl and libcrypto, where they are missing. */
#include "http.h"

#if !FETCH_NETWORK
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define MISSING(result, name, ...)		\
	result					\
	name(__VA_ARGS__)			\
	{					\
		die("built without libcurl");	\
	}

MISSING(char *, fetch_escape, const char *s, int slashes)
MISSING(int, fetch_same_host, const char *a, const char *b)
MISSING(enum http_end, fetch_http, const struct http_ask *a,
    struct http_reply *r)
MISSING(enum http_end, fetch_status, const struct fetch_repo *repo,
    const struct http_reply *r)
MISSING(int, fetch_wait, int *tries, const struct http_reply *r)
MISSING(int, fetch_text, struct qwen_text *out, const struct http_ask *a,
    struct http_reply *r)
MISSING(struct fetch_hash *, fetch_hash_new, const char *hash, uint64_t bytes)
MISSING(void, fetch_hash_add, struct fetch_hash *h, const void *p, size_t n)
MISSING(int, fetch_hash_is, struct fetch_hash *h, const char *hash,
    char out[FETCH_HASH])
MISSING(void, fetch_hash_free, struct fetch_hash *h)
#endif
