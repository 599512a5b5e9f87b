/* SPDX-License-Identifier: ISC */
/*
 * qengine.h - clients send requests; each becomes a job of one scheduler, whose
 * results go back as events.
 */
#ifndef QENGINE_H
#define QENGINE_H

#include "tool/tool.h"
#include "text/request/request.h"
#include "wire/engine.h"

struct qengine;
struct qengine_client;

/* A request while it runs; the arg of its struct qwen_job. */
struct qengine_job {
	struct qengine_job	*next;		/* of the same client */
	struct qengine_client	*client;
	struct qwen_engine_request request;	/* without its tokens */
	struct qwen_shared_grammar *grammar;
	size_t			 n_prompt, n_cached, n_tokens;
	double			 deadline;	/* on the clock of cli_now(); 0:
						   none */
	int			 is_late;	/* the deadline ended it */
};

enum qengine_form { QENGINE_UNKNOWN, QENGINE_CBOR, QENGINE_JSON };

struct qengine_client {
	struct qengine_client	*next;
	struct qengine		*engine;
	int			 in, out;	/* equal for a socket */
	int			 is_pipe;	/* on stdin and stdout */
	enum qengine_form	 form;
	int			 greeted;	/* its header has arrived */
	int			 eof;		/* sends no more requests */
	int			 broken;	/* sent malformed data; the rest
						   is ignored */
	int			 gone_errno;	/* left or dropped: errno or 1;
						   else 0 */
	struct qwen_inbox	 inbox;
	int			 is_blocked;	/* inbox may have requests that
						   wait for room */
	struct qwen_text	 unread;	/* events not yet written, */
	size_t			 at;		/* from this byte on */
	double			 since;		/* cli_now() of the last
						   progress */
	struct qengine_job	*jobs;
	int			 readable;	/* by poll(2) */
};

struct qengine {
	/* set by the caller */
	struct tool_work	 work;
	const char		*socket;	/* path; NULL: use the pipe */
	size_t			 max_waiting;	/* requests in the queue */
	uint64_t		 max_unread;	/* bytes per client */
	unsigned		 stall_s;
	/* internal */
	struct qwen_header	 header;	/* of the model; has the ending
						   ids */
	struct qwen_grammars	 grammars;
	struct qengine_client	*clients;
	size_t			 n_clients;
	int			 listener;	/* socket, or -1 */
	int			 wake;		/* readable after a signal */
	int			 draining;
	int			 out_of_fds;	/* accept failed: no descriptors
						   or memory */
	int			 may_store;	/* prefixes may remain to be
						   stored */
	int			 has_garbage;	/* memory may be returned to
						   the system */
	int			 failed;	/* errno of the pipe, or 0 */
	uint64_t		 n_requests, n_dropped;
};

/* ------------------------------------------------------- client.c */

struct qengine_client *qengine_client_new(struct qengine *e, int in, int out);

/* Cancel the client's jobs, remove the client from the list and free it. */
void qengine_client_free(struct qengine_client *c);

/* Read the bytes that have arrived. */
void qengine_client_read(struct qengine_client *c);
/* Returns 1 if more bytes of a long request are in a pipe, or come at once. */
int qengine_client_has_more(const struct qengine_client *c);

/* Handle the requests that have arrived, while there is room. */
void qengine_client_handle(struct qengine_client *c);

/*
 * Return 1 if requests of a pipe must wait: the queue is full, or too many
 * events are unread.
 */
int qengine_client_waits(const struct qengine_client *c);

/* Write as many events as the client accepts without blocking. */
void qengine_client_write(struct qengine_client *c);

void qengine_send_event(struct qengine_client *c, const struct qwen_event *ev);

/* Return the bytes of events that wait to be written. */
size_t qengine_unread(const struct qengine_client *c);

/* Return 1 if the queue takes no further request. */
int qengine_is_full(const struct qengine *e);

/* ---------------------------------------------------------- job.c */

/* Handle a request, given as a CBOR record of n bytes. */
void qengine_handle_record(struct qengine_client *c, const unsigned char *p,
    size_t n);

/*
 * Refuse a request of n prompt tokens: send its end event, or an error event if
 * id is "" or in use.
 */
void qengine_refuse(struct qengine_client *c, const char *id, size_t n,
    const char *code, const char *message);

/* Cancel jobs after their deadline. */
void qengine_deadlines(struct qengine *e);

/* --------------------------------------------------------- json.c */

/*
 * Convert a request from a line of JSON to a CBOR record in *out: 0, or -1 with
 * err.  In both cases sets id to the id of the request, or "" if it has no
 * valid one.
 */
int qengine_from_json(struct qwen_text *out, const unsigned char *line,
    size_t n, char id[QWEN_ENGINE_ID + 1], struct qwen_err *err);

/* ---------------------------------------------------------- run.c */

/* Serve until all work is done and no client can come, or after a signal. */
void qengine_run(struct qengine *e);

#endif
