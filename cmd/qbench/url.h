/* SPDX-License-Identifier: ISC */
/* url.h - load on a server: requests, replies, results. */
#ifndef QBENCH_URL_H
#define QBENCH_URL_H

#include "qbench.h"

/* ----------------------------------------------------------------- requests */

enum qbench_url_api { QBENCH_CHAT, QBENCH_COMPLETIONS };

struct qbench_url_opts {
	const char	*url;		/* as given */
	const char	*input;		/* file with requests, or NULL */
	const char	*body;		/* JSON fields for all requests, or
					   NULL */
	enum qbench_url_api api;
	struct qbench_list clients;
	struct qbench_reals rate;	/* requests per second; n 0: only
					   clients */
	double		 seconds, timeout;	/* 0: no limit */
	uint64_t	 requests;	/* 0: the default number */
	uint64_t	 warmup;
	size_t		 prefix;
	uint64_t	 seed;
	struct tool_times goals;
};

extern struct qbench_url_opts qbench_url;

/* The setting of one table. */
struct qbench_url_setting {
	size_t	clients;	/* requests at a time; with a rate, at most; 0:
				   no limit */
	double	rate;		/* requests per second; 0: each client sends its
				   next one at once */
	size_t	prompt, count;	/* tokens; 0: as in the file */
};

/* The bodies of requests: generated, or from a file. */
struct qbench_bodies;

/* model: its name for the server, or NULL.  Dies on errors. */
struct qbench_bodies *qbench_bodies_open(const struct qbench_url_opts *o,
    const char *model);
/* Returns the number of requests in the file; 0: generated, without a limit. */
uint64_t qbench_bodies_count(const struct qbench_bodies *b);
/*
 * Writes the body of a request, numbered from 0, to out; returns the path of
 * its URL, such as "/chat/completions".
 */
const char *qbench_bodies_get(const struct qbench_bodies *b,
    const struct qbench_url_setting *set, uint64_t number,
    struct qwen_text *out);
void qbench_bodies_close(struct qbench_bodies *b);

/* ------------------------------------------------------------------ replies */

/* A reply being received; zero it first. */
struct qbench_stream {
	struct qwen_text line;		/* incomplete line */
	struct qwen_text other;		/* start of anything that is not an
					   event */
	double		 first, last;	/* times of the first and last token; 0:
					   none */
	uint64_t	 n_chunks;	/* chunks with tokens */
	int		 ended;		/* it reported its end */
	int64_t		 prompt, cached, generated;	/* token counts
							   reported, plus 1; 0:
							   not reported */
	char		 kind[24];	/* error as one word; "": none */
	char		 why[200];
	struct tool_timings gaps;	/* ms between chunks */
};

void qbench_stream_feed(struct qbench_stream *s, const char *p, size_t n,
    double now);
/* Handle the end of the reply. */
void qbench_stream_end(struct qbench_stream *s, double now);
/* Copy the message of an error reply to s->why. */
void qbench_stream_message(struct qbench_stream *s);
void qbench_stream_fail(struct qbench_stream *s, const char *kind, const char *why);
void qbench_stream_fini(struct qbench_stream *s);

/* -------------------------------------------------------------------- HTTP */

/* A request in progress. */
struct qbench_request {
	char		*url;		/* owned */
	struct qwen_text body;		/* POST if not empty, else GET */
	double		 due, end;
	long		 status;	/* HTTP status; 0: none received */
	struct qbench_stream reply;
	void		*easy;		/* private to url_http.c, to the end */
	char		 error[256];
	struct qbench_request	*next;
};

struct qbench_http;

/* socket: path of a UNIX domain socket, or NULL.  Dies without libcurl. */
struct qbench_http *qbench_http_open(const char *socket, double timeout);
void qbench_http_start(struct qbench_http *h, struct qbench_request *c);
/* Waits at most this many seconds.  Returns a finished request, or NULL. */
struct qbench_request *qbench_http_wait(struct qbench_http *h, double seconds);
/* Cancels and frees the requests in progress. */
void qbench_http_close(struct qbench_http *h);
void qbench_request_free(struct qbench_request *c);

/* ------------------------------------------------------------------ results */

struct qbench_url_error {
	char		 kind[24], why[200];	/* why: of the first such
						   error */
	uint64_t	 n;
};

struct qbench_url_result {
	struct qbench_url_setting set;
	const char	*base, *model;
	uint64_t	 n_answered, n_failed, n_given_up, n_good, most;
	int64_t		 prompt, cached, generated;	/* tokens; -1:
							   unknown */
	double		 seconds, late;		/* late: largest delay in ms */
	struct tool_timings time[TOOL_N_TIMES], gaps;
	struct qbench_url_error *error;
	size_t		 n_errors, cap_errors;
	int		 interrupted;
};

void qbench_url_show(struct qbench_url_result *r);

#endif
