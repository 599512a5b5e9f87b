/* SPDX-License-Identifier: ISC */
/*
 * qengine.h - clients, each with requests of its own, jobs of one scheduler, and
 * events back to them.
 */
#ifndef QENGINE_H
#define QENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "tool/tool.h"
#include "text/request/request.h"
#include "wire/engine.h"

struct qengine;
struct qengine_client;

/* A request that is a job; the scheduler's arg. */
struct qengine_job {
	struct qengine_job	*next;		/* of the client's */
	struct qengine_client	*client;
	struct qwen_engine_request request;	/* but for its tokens */
	struct qwen_shared_grammar *grammar;
	size_t			 n_prompt, n_cached, n_tokens;
	double			 deadline;	/* by cli_now(); 0: none */
	int			 is_late;	/* which is why it was ended */
};

enum qengine_form { QENGINE_UNKNOWN, QENGINE_CBOR, QENGINE_JSON };

struct qengine_client {
	struct qengine_client	*next;
	struct qengine		*engine;
	int			 in, out;	/* the same, of a socket */
	int			 is_pipe;	/* stdin and stdout */
	enum qengine_form	 form;
	int			 greeted;	/* its header came */
	int			 eof;		/* no more requests */
	int			 broken;	/* nor is sense in what comes */
	int			 gone;		/* nobody reads */
	struct qwen_inbox	 inbox;
	int			 held;		/* in which there may be more */
	struct qwen_text	 unread;	/* events, */
	size_t			 at;		/* as far as they are gone */
	double			 since;		/* when some were taken last */
	struct qengine_job	*jobs;
	int			 readable, writable;	/* as poll(2) has it */
};

struct qengine {
	/* set by the caller */
	struct tool_work	 work;
	const char		*socket;	/* path, or NULL: a pipe */
	size_t			 max_waiting;	/* requests */
	uint64_t		 max_unread;	/* bytes, of a client */
	unsigned		 stall_s;
	/* our own */
	struct qwen_header	 header;	/* of the model; has the endings */
	struct qwen_grammars	 grammars;
	struct qengine_client	*clients;
	size_t			 n_clients;
	int			 listener;	/* or -1 */
	int			 wake;		/* readable after a signal */
	int			 draining;
	int			 crowded;	/* no descriptor is left */
	int			 unstored;	/* perhaps something */
	int			 worked;	/* since memory was returned */
	int			 failed;	/* errno of the pipe, or 0 */
	uint64_t		 n_requests, n_dropped;
};

/* ------------------------------------------------------- client.c */

struct qengine_client *qengine_client_new(struct qengine *e, int in, int out);

/* End its jobs and free it; it is in the list. */
void qengine_client_free(struct qengine_client *c);

/* Bytes that are there, and the requests in them. */
void qengine_client_read(struct qengine_client *c);

/* The requests that came and were not looked at, while there is room. */
void qengine_client_take(struct qengine_client *c);

/* No request of a pipe is looked at: the queue is full, or nobody reads. */
int qengine_client_waits(const struct qengine_client *c);

/* As many events as it takes at once. */
void qengine_client_write(struct qengine_client *c);

void qengine_tell(struct qengine_client *c, const struct qwen_event *ev);

/* Bytes of events that it has not taken. */
size_t qengine_unread(const struct qengine_client *c);

/* Another one cannot be put into the queue. */
int qengine_is_full(const struct qengine *e);

/* ---------------------------------------------------------- job.c */

/* One record. */
void qengine_take(struct qengine_client *c, const unsigned char *p, size_t n);

/*
 * Of a request that is refused, with so many tokens: the end of it, or where id
 * is "" an error.
 */
void qengine_refuse(struct qengine_client *c, const char *id, size_t n,
    const char *code, const char *message);

/* End those that are late; when the next one is, or 0. */
double qengine_deadlines(struct qengine *e);

/* --------------------------------------------------------- json.c */

/* A line as the record that it stands for; id: as far as it can be read. */
int qengine_json(struct qwen_text *out, const unsigned char *line, size_t n,
    char id[QWEN_ENGINE_ID + 1], struct qwen_err *err);

/* ---------------------------------------------------------- run.c */

/* Until there is nothing left to do. */
void qengine_run(struct qengine *e);

#endif
