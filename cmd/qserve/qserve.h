/* SPDX-License-Identifier: ISC */
/*
 * qserve.h - HTTP and text around engines: connections, calls, jobs, and the
 * main loop.
 *
 * A connection is a socket with HTTP.  A call is one HTTP request on it, until
 * its response is complete.  A job is what a call requests from an engine.
 * There are no threads, and only poll(2) waits.
 */
#ifndef QSERVE_H
#define QSERVE_H

#include <sys/types.h>

#include <time.h>

#include "images.h"
#include "tool/service.h"
#include "wire/engine.h"

#if defined(__has_include) && !__has_include(<microhttpd.h>)
#error "qserve needs libmicrohttpd (Debian: libmicrohttpd-dev; see make deps)"
#endif

struct MHD_Connection;
struct MHD_Daemon;
struct qserve;
struct qserve_call;

/* ---------------------------------------------------------------- history.c */

/*
 * A model may generate a text with other tokens than the tokenizer would use.
 * When the text comes back as part of a conversation, states are stored under
 * the generated ids.  So these ids are remembered where they differ.
 */
enum { QSERVE_KEEP_MAX = 3 };

struct qserve_history;

/*
 * Create the history of this vocabulary.  It is read from and saved to the file
 * qserve.ids in the folder store, unless store is NULL.  If that file cannot be
 * used, prints a note and continues without it.
 */
void qserve_history_open(struct qserve_history **out, const char *store,
    const struct qwen_tok *tok, struct qwen_tok_decoder *spell,
    const struct qwen_fp *vocab);

/* A chat's prompt, as qserve_history_encode() found it. */
struct qserve_prompt {
	size_t		 keep[QSERVE_KEEP_MAX];	/* numbers of tokens after which
						   later prompts may differ */
	size_t		 n_keep;
	unsigned char	 key[16];	/* hash of its ids */
	size_t		 turn_bytes;	/* bytes of its last turn, and */
	char		*turn;		/* their text; free() it */
};

/* Encode a prompt.  h NULL: with the tokenizer alone. */
int qserve_history_encode(struct qserve_history *h,
    const struct qwen_tok *tok, const struct qwen_prompt *p,
    struct qserve_prompt *about, struct qwen_ids *out, struct qwen_err *err);

/*
 * Add the n ids that were generated after the prompt, without an ending token.
 */
void qserve_history_add(struct qserve_history *h,
    const struct qserve_prompt *about, const int32_t *ids, size_t n);

/* ------------------------------------------------------------------- jobs */

/*
 * A request of qwen-engine(5) made for a call.  A job without a call
 * (cancelled) lives until its engine has sent its end.
 */
struct qserve_job {
	struct qserve_job	*next;		/* in the list of waiting jobs,
						   or of its engine */
	struct qserve_call	*call;		/* NULL: cancelled */
	size_t			 i;		/* index in call->jobs */
	double			 asked_at;	/* time when the question was
						   sent, by cli_now() */
	size_t			 slot;		/* index in server->slot */
	char			 id[48];
	const struct qserve_engine *engine;	/* NULL: waits for one */
	int			 started;	/* an engine has begun it */
	int			 has_result;	/* a result has arrived */
	int			 is_question;	/* a question about an
						   engine's state, answered by
						   one event */
	unsigned		 n_sent;
};

/*
 * How a call makes its jobs and handles their results.  i is the index of the
 * job.
 */
struct qserve_handler {
	/*
	 * Fill in the request except its id: 0, or -1 without memory.  The
	 * pointers in it stay valid until the next call.
	 */
	int	(*make_request)(struct qserve_call *c, size_t i,
		    struct qwen_engine_request *o);
	/* handles an event of the job; an end is the last one */
	void	(*event)(struct qserve_call *c, size_t i,
		    const struct qwen_event *ev);
	/*
	 * all jobs of the call have failed; qwen_refusal_status() has the codes
	 */
	void	(*fail)(struct qserve_call *c, const char *code,
		    const char *message);
};

/* ---------------------------------------------------------------- engines */

struct qserve_engine {
	struct qserve_engine	*next;
	struct qserve		*server;
	const char		*command;	/* for sh -c; NULL: the built-in
						   engine */
	pid_t			 pid;		/* 0: not running */
	int			 to, from;	/* its stdin and stdout, or
						   -1 */
	struct qwen_text	 unsent;	/* requests not yet written, */
	size_t			 at;		/* from this byte on */
	struct qwen_inbox	 inbox;
	int			 ready;		/* its header has arrived */
	struct qwen_hello	 hello;
	double			 start_at;	/* time of the next start, at
						   the earliest */
	double			 report_at;	/* when to report that it is not
						   ready; 0: reported */
	unsigned		 n_failed;	/* failures in a row */
	uint64_t		 n_started;
	struct qserve_job	*jobs;
	size_t			 n_jobs;
	double			 heard_at;	/* time of its last event, or of
						   its first job after being
						   idle */
	double			 asked_at;	/* time of its oldest unanswered
						   question; 0: none */
	int			 computed;	/* has sent a result since its
						   start */
};

/* ------------------------------------------------------------------ calls */

struct qserve_conn {
	struct qserve_conn	*next, *prev;
	struct MHD_Connection	*mhd;
	int			 fd;
	struct qserve_call	*call;		/* NULL: idle */
	double			 since;		/* idle since, by cli_now() */
};

/* A kind of call: what answers it. */
struct qserve_kind {
	/* begins the answer; call->state is there, and zero */
	void	(*begin)(struct qserve_call *c);
	size_t	 size;		/* bytes of the state; 0: none */
	/* frees what the state has; NULL if there is nothing */
	void	(*end)(struct qserve_call *c);
};

/* What is special about the calls of a route. */
enum qserve_what {
	QSERVE_OPEN = 1,		/* they need no API key */
	QSERVE_TOKENIZE, QSERVE_DETOKENIZE, QSERVE_TEMPLATE,
	QSERVE_INPUT, QSERVE_PROMPT,	/* Ollama's field with the texts */
};

struct qserve_route {
	const char	*method, *path;
	enum qwen_form	 form;		/* of error messages */
	enum qserve_what what;		/* or 0 */
	const struct qserve_kind *kind;
};

/* What a call has used, for the metrics. */
struct qserve_use {
	uint64_t	n_prompt;	/* prompt tokens of jobs that began */
	uint64_t	n_cached;	/* of them, tokens that were not read */
	uint64_t	n_chosen;	/* generated tokens */
	size_t		n_answers;
};

struct qserve_call {
	struct qserve_call	*next, *prev;
	struct qserve		*server;
	struct qserve_conn	*conn;
	const struct qserve_route *route;	/* NULL: not found */
	const char		*method;	/* borrowed; valid until the
						   response is queued */
	char			*path;
	char			*host;		/* of a target http://host/path,
						   or NULL */
	enum qwen_form		 form;
	uint64_t		 number;	/* random */
	double			 since;
	struct qwen_text	 body;		/* request body, as far as
						   kept, */
	uint64_t		 n_body;	/* and bytes received in all */
	/* the response */
	int			 status;	/* HTTP status; 0: unknown
						   yet */
	const char		*type;		/* content type of out; NULL:
						   JSON */
	struct qwen_text	 policy;	/* Content-Security-Policy of a
						   page */
	const char		*origin;	/* that a CORS header allows, or
						   NULL */
	int			 preflight;	/* it is a CORS preflight */
	int			 hangs_up;	/* close the connection after
						   it */
	unsigned		 retry_s;	/* Retry-After; 0: none */
	const char		*allow;		/* methods for status 405 */
	struct qwen_text	 out;		/* body or events not yet
						   sent, */
	size_t			 at;		/* from this byte on */
	int			 is_stream;	/* out is a stream of events */
	int			 ended;		/* all events are in out */
	double			 sent_at;	/* time of the last event
						   sent */
	int			 has_news;	/* tokens came since then */
	char			 seed[24];	/* drawn for it, or "" */
	/* progress of the call */
	int			 received;	/* its request is complete */
	int			 suspended;	/* its connection is suspended
						   in MHD */
	int			 queued;	/* the response is queued in
						   MHD */
	int			 client_left;	/* its client left or was
						   dropped */
	struct qserve_needs	 images;
	/* jobs */
	const struct qserve_handler *handler;
	struct qserve_job	**jobs;		/* NULL elements: ended */
	size_t			 n_jobs, n_left;
	int			 restarted;
	struct qserve_choice	*choice;	/* of an engine, while they
						   answer, or NULL */
	struct qserve_engine	*preferred;	/* best engine, or NULL */
	double			 asks_until;	/* waits for answers of engines
						   until this time; 0: does not
						   wait */
	double			 deadline;	/* on the clock of cli_now(); 0:
						   none */
	double			 began_at;	/* when the first engine
						   began */
	double			 first_at;	/* time of the first token; 0:
						   none yet */
	struct qserve_use	 use;
	void			*state;		/* of its kind; or NULL */
};

/* ---------------------------------------------------------------- metrics */

/* A histogram: how often something took at most each bound. */
enum { QSERVE_BOUNDS = 14 };

extern const double qserve_bounds[QSERVE_BOUNDS];	/* in seconds */

struct qserve_times {
	uint64_t	n, at_most[QSERVE_BOUNDS];
	double		sum;
};

struct qserve_totals {
	uint64_t	status[600];		/* calls by HTTP status */
	uint64_t	left;			/* calls whose client left */
	uint64_t	prompt, cached, chosen;	/* tokens */
	struct qserve_times ttft, tpot, e2e;
};

/* ------------------------------------------------------------------ server */

enum { QSERVE_LISTENERS = 16 };

struct qserve {
	/* set by the caller */
	struct tool_service	 with;
	struct qwen_unknown	 unknown;
	struct cli_list		 listen;	/* addresses; none: the
						   default */
	struct cli_list		 commands;	/* of --engine */
	struct cli_list		 engine_args;	/* arguments of the built-in
						   engine */
	int			 quantizes;	/* the built-in engine quantises
						   the weights (--quantize) */
	struct tool_store	 store;		/* also of the built-in
						   engine */
	struct qwen_vectors	 embedding;
	struct qserve_ranker	*ranker;
	struct qserve_images	 images;
	struct cli_list		 ignore;	/* --ignore-line */
	int			 retokenize;	/* --retokenize */
	const char		*program;	/* path of the built-in
						   engine */
	const char		*model_path;
	const char		*name;		/* of the model */
	struct cli_list		 aliases;	/* --alias */
	const char		*key_file;
	struct cli_list		 hosts;		/* --host */
	struct cli_list		 cors;		/* --cors */
	size_t			 max_waiting;	/* jobs, in addition to running
						   ones */
	uint64_t		 max_body;	/* bytes */
	uint64_t		 max_bodies;	/* of all requests */
	uint64_t		 max_unread;
	unsigned		 max_connections;
	unsigned		 stall_s, idle_s;
	unsigned		 socket_mode;
	double			 timeout_s;	/* per call; 0: none */
	/* internal */
	const struct qwen_gguf	*gguf;
	struct qwen_header	 header;
	struct qserve_history	*history;	/* or NULL */
	struct qserve_lines	*lines;		/* compiled --ignore-line */
	struct qserve_response	*oldest, *youngest;
	size_t			 n_response_bytes;
	struct cli_list		 keys;		/* none: no key is needed */
	struct MHD_Daemon	*http;
	int			 http_fd;	/* epoll descriptor of MHD */
	int			 resumed;	/* MHD must run, to continue a
						   connection */
	int			 listener[QSERVE_LISTENERS];
	/* path of each UNIX socket that qserve created; else NULL */
	const char		*listener_path[QSERVE_LISTENERS];
	size_t			 n_listeners;
	size_t			 n_given;	/* number of listeners from
						   systemd */
	double			 no_accept_until; /* without descriptors for
						   clients: no accept(2) until
						   this time or until a
						   connection closes */
	struct qserve_conn	*conns;
	size_t			 n_conns;
	struct qserve_call	*calls;
	size_t			 n_calls;
	uint64_t		 n_body_bytes;	/* bytes of all request
						   bodies */
	struct qserve_engine	*engines;
	size_t			 n_engines;
	struct qserve_job	*waiting;	/* jobs without an engine */
	struct qserve_job	**slot;
	size_t			 n_slots, cap_slots;
	size_t			 n_jobs;	/* all except questions */
	uint64_t		 n_made;	/* jobs made so far */
	int			 wake;		/* readable after a signal */
	double			 busy_at;	/* time of the last call; 0:
						   memory was returned to the
						   system since then */
	int			 draining;
	double			 no_client_at;	/* while draining: time when the
						   last connection closed */
	int			 was_ready;	/* an engine has been ready */
	uint64_t		 started;	/* seconds since 1970 */
	time_t			 modified;	/* time of the model file */
	struct qserve_totals	 totals;
};

/* --------------------------------------------------------------- listen.c */

/*
 * Open the listeners; dies on errors.  qserve_listeners_print prints their
 * addresses.
 */
void qserve_listen(struct qserve *s);
void qserve_listeners_print(const struct qserve *s);
void qserve_unlisten(struct qserve *s);

/* ---------------------------------------------------------------- guard.c */

/* Read the API keys, check --host and --cors.  Dies on errors. */
void qserve_guard_open(struct qserve *s);

/* Returns 0 if the call is allowed; else answers it and returns -1. */
int qserve_check_access(struct qserve_call *c);

/* Send a state such as "READY=1" to systemd, if it wants it. */
void qserve_notify_systemd(const char *state);

/* ----------------------------------------------------------------- http.c */

void qserve_http_open(struct qserve *s);	/* dies on errors */

/* Accept all clients that wait at a listener. */
void qserve_http_accept(struct qserve *s, int listener);

/* Do everything in MHD that can be done without waiting. */
void qserve_http_run(struct qserve *s);

/* Returns the ms after which MHD must run again; -1: no limit. */
int qserve_http_timeout(const struct qserve *s);

/* ----------------------------------------------------------------- call.c */

struct qserve_call *qserve_call_new(struct qserve *s, struct qserve_conn *conn,
    const char *method, const char *target);
void qserve_call_free(struct qserve_call *c);

/* Returns the value of a request header, or NULL. */
const char *qserve_header(const struct qserve_call *c, const char *name);

/* Free the request body. */
void qserve_body_free(struct qserve_call *c);

/* Begin to answer the call, whose request is complete. */
void qserve_call_begin(struct qserve_call *c);

/*
 * Answer the call anew: drop its response, which must not be queued.  The call
 * must have no jobs.
 */
void qserve_call_restart(struct qserve_call *c);

/* Resume the call's connection: the status, or more of out, is available. */
void qserve_call_resume(struct qserve_call *c);

/*
 * Status of a call whose client left before it was answered; other servers log
 * the same.
 */
enum { QSERVE_LEFT = 499 };

/* The client has left: count that, and cancel the call's jobs. */
void qserve_call_left(struct qserve_call *c);

/* The same for a client that must leave: also shuts the connection down. */
void qserve_call_drop(struct qserve_call *c);

/*
 * qserve_done answers the call with the contents of out; qserve_error answers
 * it with an error instead.
 */
void qserve_done(struct qserve_call *c, int status);
void qserve_error(struct qserve_call *c, int status, const char *code,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---------------------------------------------------------------- about.c */

/* Answers that describe the model, for OpenAI, Ollama, llama.cpp and vLLM. */
void qserve_models(struct qserve_call *c);
void qserve_model(struct qserve_call *c);
void qserve_ollama_version(struct qserve_call *c);
void qserve_ollama_tags(struct qserve_call *c);
void qserve_ollama_ps(struct qserve_call *c);
void qserve_ollama_show(struct qserve_call *c);
void qserve_ollama_pull(struct qserve_call *c);
void qserve_ollama_not_here(struct qserve_call *c);
void qserve_props(struct qserve_call *c);
void qserve_slots(struct qserve_call *c);
void qserve_tokenizer_info(struct qserve_call *c);

/* ----------------------------------------------------------------- page.c */

void qserve_page(struct qserve_call *c);	/* the chat page */

/* ---------------------------------------------------------------- route.c */

/*
 * Returns the route of this method and path, or NULL: *status is 404, or 405
 * with the methods of the path in *allow.
 */
const struct qserve_route *qserve_route(const char *method, const char *path,
    int *status, const char **allow);

/* --------------------------------------------------------------- engine.c */

void qserve_engines_open(struct qserve *s);

/* Returns the context length in tokens; 0 if no engine has reported it yet. */
uint64_t qserve_n_ctx(const struct qserve *s);

/*
 * Start the engines whose start time has come; report those that are not ready.
 */
void qserve_engines_start(struct qserve *s, double now);

/* Returns 1 if the engine is starting and that was not reported yet. */
int qserve_engine_is_starting(const struct qserve_engine *e);

/* Read events, and write requests, as poll(2) allows. */
void qserve_engine_read(struct qserve_engine *e);
void qserve_engine_write(struct qserve_engine *e);

/* An engine's answer is late after this many seconds: the length of a pass. */
enum { QSERVE_PASS_S = 2 };

/*
 * qserve_engine_unanswered_s returns the seconds since the oldest unanswered
 * question; engines answer questions between passes.  qserve_engine_is_stuck
 * returns 1 if that is too long; qserve_engine_kill_at returns the time at which
 * the engine will be killed for it, or 0 if it owes no answer.
 */
double qserve_engine_kill_at(const struct qserve_engine *e);
double qserve_engine_unanswered_s(const struct qserve_engine *e, double now);
int qserve_engine_is_stuck(const struct qserve_engine *e, double now);

/*
 * Send a question to engines with work that have been silent, and kill those
 * that do not answer within --stall seconds.  now must be a time before the
 * latest events were read.
 */
void qserve_engines_watch(struct qserve *s, double now);

/* Queue a request to the engine: 0, or -1 without memory. */
int qserve_engine_send(struct qserve_engine *e,
    const struct qwen_engine_request *o);

/* Send no more requests; wait until all engines have ended. */
void qserve_engines_close(struct qserve *s);

/* ------------------------------------------------------------------ job.c */

/* Returns how many jobs the ready engines run at the same time. */
size_t qserve_n_sequences(const struct qserve *s);

/*
 * qserve_jobs_new makes n jobs for a call.  It answers the call with an error
 * and returns -1 if there are too many jobs (429), or if a request exceeds the
 * limits of engines.  qserve_jobs_make does the same without these checks.
 */
int qserve_jobs_new(struct qserve_call *c, size_t n,
    const struct qserve_handler *handler);
void qserve_jobs_make(struct qserve_call *c, size_t n,
    const struct qserve_handler *handler);

/*
 * Send a question to all engines that are ready and not late with an answer;
 * returns the number of questions.  The index of a question is that of its
 * engine.  If the engine ends, or does not answer within timeout_s seconds,
 * the call gets an end event instead of the answer.
 */
size_t qserve_ask_all(struct qserve_call *c,
    const struct qserve_handler *handler, double timeout_s);

/* End the questions that have waited too long. */
void qserve_questions_end(struct qserve *s, double now);

/*
 * Send a question to an engine that has no unanswered one, to see whether it is
 * alive.
 */
void qserve_engine_probe(struct qserve_engine *e);

/*
 * Returns 1 if the event, an answer to a question, reports no work although the
 * engine got a request before the question and has not sent its end.
 */
int qserve_engine_forgot(const struct qserve_engine *e,
    const struct qwen_event *ev);

/* Cancel all jobs of a call, or one job, and tell their engines. */
void qserve_jobs_cancel(struct qserve_call *c);
void qserve_job_cancel(struct qserve_job *j);

/* Send waiting jobs to engines. */
void qserve_jobs_send(struct qserve *s);

/* Handle an event of an engine. */
void qserve_job_event(struct qserve_engine *e, const struct qwen_event *ev);

/* The engine has ended: its jobs go to other engines, or fail. */
void qserve_jobs_lost(struct qserve_engine *e);

/* --------------------------------------------------------------- choose.c */

/*
 * Find the engine that has read most of the call's first prompt, then make the
 * jobs for it: 1; or 0 if there is nothing to choose.
 */
int qserve_choose_engine(struct qserve_call *c, size_t n,
    const struct qserve_handler *handler);

/* -------------------------------------------------------------- metrics.c */

extern const struct qserve_kind qserve_metrics;	/* GET /metrics */

/* --------------------------------------------------------------- answer.c */

/* The service that parses one call's request, and what it finds in a chat. */
struct qserve_reader {
	struct qwen_service	 service;	/* the server's, with an
						   encoder of prompts */
	struct qserve_history	*history;
	struct qserve_prompt	 prompt;	/* of a chat */
};

void qserve_reader_init(struct qserve_reader *r, const struct qserve *s);
void qserve_reader_fini(struct qserve_reader *r);

extern const struct qserve_kind qserve_answers;	/* completions and chats */

/*
 * Return the error code, and the message, for a job that ended without a
 * result.
 */
const char *qserve_error_code(const struct qwen_event *ev);
const char *qserve_error_message(const struct qwen_event *ev);

/*
 * qserve_answer_flush_at returns the time at which new tokens must be sent to a
 * stream; 0: never.  qserve_answer_flush sends them if that time has come.
 */
double qserve_answer_flush_at(const struct qserve_call *c);
void qserve_answer_flush(struct qserve_call *c, double now);

/* Send a keep-alive event in a stream that has been silent. */
void qserve_answer_keep_alive(struct qserve_call *c, double now);

/* --------------------------------------------------------------- tokens.c */

/* Answer a call about tokens, QSERVE_TOKENIZE to QSERVE_TEMPLATE. */
void qserve_tokens(struct qserve_call *c);
extern const struct qserve_kind qserve_counts;	/* numbers of tokens */

/* -------------------------------------------------------------- vectors.c */

/* Returns 1 if a name in the model file contains this word, such as "embed". */
int qserve_is_named(const struct qserve *s, const char *word);

void qserve_vectors_open(struct qserve *s);
extern const struct qserve_kind qserve_vectors;

/* ----------------------------------------------------------------- rank.c */

void qserve_rank_open(struct qserve *s);
extern const struct qserve_kind qserve_ranks;

/* --------------------------------------------------------------- recall.c */

void qserve_recall_open(struct qserve *s);

/* Keep a complete response, since later requests may refer to it by its id. */
void qserve_response_keep(struct qserve *s, const struct qwen_request *q,
    uint64_t created);

/* Answer GET and DELETE of a kept response. */
void qserve_response_get(struct qserve_call *c);
void qserve_response_delete(struct qserve_call *c);

/* ----------------------------------------------------------------- loop.c */

void qserve_run(struct qserve *s);

#endif
