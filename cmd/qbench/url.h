/* SPDX-License-Identifier: ISC */
/* url.h - load on a server: what is asked, how it is sent, what comes back. */
#ifndef QBENCH_URL_H
#define QBENCH_URL_H

#include "qbench.h"

/* ------------------------------------------------------------ what is asked */

enum url_api { URL_CHAT, URL_COMPLETIONS, URL_OPENAI };

struct url_opts {
	const char	*url;		/* as it was given */
	const char	*input;		/* requests from this file, or NULL */
	const char	*model;		/* of the server, or NULL */
	const char	*body;		/* members for all requests, or NULL */
	enum url_api	 api;
	struct list	 clients;
	struct chances	 rate;		/* per second; n 0: clients only */
	double		 burstiness, range_ratio;
	double		 seconds, timeout;	/* 0: no limit */
	uint64_t	 requests;	/* 0: as many as is usual */
	uint64_t	 warmup;
	size_t		 prefix;
	uint64_t	 seed;
	struct tool_times goals;
};

extern struct url_opts qbench_url;

/* What one table is of. */
struct url_setting {
	size_t	clients;	/* at a time; with a rate, at most; 0: no
				   limit */
	double	rate;		/* requests per second; 0: the next after
				   each */
	size_t	prompt, count;	/* tokens; 0: those of a file */
};

/* Bodies of requests: made, or from a file. */
struct qbench_bodies;

/* model: what the server calls it, or NULL.  Dies. */
struct qbench_bodies *qbench_bodies_open(const struct url_opts *o,
    const char *model);
/* How many are in the file; 0: as many as one likes. */
uint64_t qbench_bodies_count(const struct qbench_bodies *b);
/* That of a number, from 0 on, and its path: "/chat/completions". */
const char *qbench_bodies_get(const struct qbench_bodies *b,
    const struct url_setting *set, uint64_t number, struct qwen_text *out);
void qbench_bodies_close(struct qbench_bodies *b);

/* ---------------------------------------------------------- what comes back */

/* A reply as it comes; zero at first. */
struct qbench_stream {
	struct qwen_text line;		/* that is not whole yet */
	struct qwen_text other;		/* what is no event: its beginning */
	double		 first, last;	/* when tokens came; 0: none */
	uint64_t	 n_chunks;	/* that had tokens */
	int		 ended;		/* it said so */
	int64_t		 prompt, cached, generated;	/* tokens it told of;
							   each is 1 too high,
							   0: it did not */
	char		 kind[24];	/* what went wrong, in a word, or "" */
	char		 why[200];
	struct tool_sample gaps;	/* between tokens, in ms */
};

void qbench_stream_feed(struct qbench_stream *s, const char *p, size_t n,
    double now);
/* There is no more of it. */
void qbench_stream_end(struct qbench_stream *s, double now);
/* The message of a reply that is an error, into s->why. */
void qbench_stream_message(struct qbench_stream *s);
void qbench_stream_fail(struct qbench_stream *s, const char *kind, const char *why);
void qbench_stream_fini(struct qbench_stream *s);

/* -------------------------------------------------------------------- HTTP */

/* A request under way. */
struct qbench_request {
	char		*url;		/* owned */
	struct qwen_text body;		/* POST; of n 0: GET */
	double		 due, end;
	long		 status;	/* of HTTP; 0: none came */
	struct qbench_stream reply;
	void		*easy;		/* qbench_http.c's, these */
	char		 error[256];
	struct qbench_request	*next;
};

struct qbench_http;

/* socket: a UNIX domain socket's path, or NULL.  Dies without libcurl. */
struct qbench_http *qbench_http_open(const char *socket, double timeout);
void qbench_http_start(struct qbench_http *h, struct qbench_request *c);
/* One that has ended, within so many seconds, or NULL. */
struct qbench_request *qbench_http_wait(struct qbench_http *h, double seconds);
/* Those that are under way are given up, and freed. */
void qbench_http_close(struct qbench_http *h);
void qbench_request_free(struct qbench_request *c);

/* ------------------------------------------------------------- measurements */

struct url_error {
	char		 kind[24], why[200];	/* of the first */
	uint64_t	 n;
};

struct url_result {
	struct url_setting set;
	const char	*base, *model;
	uint64_t	 n_answered, n_failed, n_given_up, n_good, most;
	int64_t		 prompt, cached, generated;	/* tokens; below 0: it
							   is not told */
	double		 seconds, late;		/* late: ms, at most */
	struct tool_sample time[TOOL_N_TIMES], gaps;
	struct url_error *error;
	size_t		 n_errors, cap_errors;
	int		 interrupted;
};

void qbench_url_show(struct url_result *r);

#endif
