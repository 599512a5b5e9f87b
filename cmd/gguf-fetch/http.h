/* SPDX-License-Identifier: ISC */
/* http.h - requests to hubs, over https alone. */
#ifndef FETCH_HTTP_H
#define FETCH_HTTP_H

#include "gguf-fetch.h"

/* The parts of a reply's headers that are used. */
struct http_reply {
	long		 status;
	int		 away;		/* it is of another host than was asked */
	int		 length_known, ranged, packed;
	uint64_t	 length;	/* Content-Length */
	uint64_t	 from, total;	/* Content-Range; total 0: not said */
	long		 retry_after;	/* seconds, -1: not said */
	char		 code[48];	/* X-Error-Code */
	char		 etag[FETCH_HASH + 8];	/* X-Linked-Etag, of any hop */
	char		 next[2048];	/* Link of rel="next" */
};

struct http_ask {
	const char	*url;
	const struct fetch_repo *repo;	/* its token goes to its host alone */
	const char	*accept;	/* or NULL */
	uint64_t	 from, to;	/* a range; to 0: all that follows */
	const char	*file;		/* its path for messages, if to > 0 */
	/*
	 * Of a reply that is 200 or 206: its headers, then its bytes.  Each returns 0,
	 * or -1 to end it.
	 */
	int		(*begin)(void *arg, const struct http_reply *r);
	int		(*data)(void *arg, const char *p, size_t n);
	void		*arg;
};

enum http_end {
	HTTP_DONE,	/* look at the status */
	HTTP_AGAIN,	/* the network failed as cli_err says; a retry may help */
	HTTP_FAILED,	/* cli_err says why; a retry would not help */
	HTTP_STOPPED,	/* begin or data has ended it */
};

enum http_end fetch_http(const struct http_ask *a, struct http_reply *r);

/* What a status means: HTTP_DONE, HTTP_AGAIN or HTTP_FAILED, and cli_err. */
enum http_end fetch_status(const struct fetch_repo *repo,
    const struct http_reply *r);

/*
 * Wait before a retry: 0; -1 if no retry is left.  *tries counts retries; r is the
 * reply, or NULL.  cli_err keeps the error of the request.
 */
int fetch_wait(int *tries, const struct http_reply *r);

/*
 * Fetch a whole body, or its first a->to bytes, with retries: 0, or -1 and
 * cli_err.  r may be NULL.
 */
int fetch_text(struct qwen_text *out, const struct http_ask *a,
    struct http_reply *r);

/* Text of a URL, percent-encoded, to free(); slashes: keep "/" as it is. */
char *fetch_escape(const char *s, int slashes);

/* Whether two URLs have the same host and port. */
int fetch_same_host(const char *a, const char *b);

#endif
