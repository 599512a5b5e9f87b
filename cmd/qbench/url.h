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

/*
 * Read --body and the file of --input; return the number of its requests, or 0
 * without a file.  Dies on errors.
 */
size_t qbench_bodies_open(void);
/*
 * Append the body of a request, numbered from 0, to out: that of the file, or a
 * generated one.  Returns the path of its URL, such as "/chat/completions".
 * model is the server's name of its model, or NULL.
 */
const char *qbench_body(const struct qbench_url_setting *set,
    const char *model, uint64_t number, struct qwen_text *out);
void qbench_bodies_close(void);

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
/* Set the error, unless there is one. */
void qbench_stream_fail(struct qbench_stream *s, const char *kind,
    const char *why);
void qbench_stream_fini(struct qbench_stream *s);

/* Return "kind: why", or "kind"; valid until the next call. */
const char *qbench_error_text(const char *kind, const char *why);

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
};

/* socket: path of a UNIX domain socket, or NULL.  Dies without libcurl. */
void qbench_http_open(const char *socket);
void qbench_http_start(struct qbench_request *c);
/* Waits at most this many seconds.  Returns a finished request, or NULL. */
struct qbench_request *qbench_http_wait(double seconds);
/* No request may be in progress. */
void qbench_http_close(void);
void qbench_request_free(struct qbench_request *c);

/* ------------------------------------------------------------------ results */

struct qbench_url_error {
	char		 kind[24], why[200];	/* why: of the first such
						   error */
	uint64_t	 n;
};

/* Times of requests; ITL is between pieces of an answer. */
enum { QBENCH_TTFT, QBENCH_TPOT, QBENCH_ITL, QBENCH_E2E, QBENCH_N_SAMPLES };

/* The load of one setting. */
struct qbench_url_result {
	struct qbench_url_setting set;
	const char	*model;		/* or NULL */
	uint64_t	 n_running;	/* in progress; at the end, given up */
	uint64_t	 n_answered, n_failed, n_good, most;
	int64_t		 prompt, cached, generated;	/* tokens; -1:
							   unknown */
	double		 seconds, late;		/* late: largest delay in ms */
	struct tool_timings time[QBENCH_N_SAMPLES];	/* ms */
	struct qbench_url_error *error;
	size_t		 n_errors, cap_errors;
	int		 interrupted;
	/* used by url_run.c only */
	uint64_t	 wanted;	/* requests; UINT64_MAX: limited by
					   time */
	uint64_t	 n_started;
	uint64_t	 rng;		/* of the arrival times */
	double		 start, due;
	int		 is_blocked;	/* a due request waits for a free
					   client */
};

void qbench_url_show(struct qbench_url_result *r);

#endif
