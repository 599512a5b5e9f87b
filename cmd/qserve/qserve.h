/* SPDX-License-Identifier: ISC */
/*
 * qserve.h - HTTP and text around engines: clients and their calls, jobs of
 * engines, and the one loop in which all of that happens.
 *
 * A connection is a socket that HTTP is spoken on; a call is one request on it,
 * from its headers to the end of what answers it; a job is what a call asks of
 * an engine.  Nothing here has a thread of its own, and only poll(2) waits.
 */
#ifndef QSERVE_H
#define QSERVE_H

#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "history.h"
#include "tool/service.h"
#include "wire/engine.h"

#if defined(__has_include) && !__has_include(<microhttpd.h>)
#error "qserve needs libmicrohttpd (Debian: libmicrohttpd-dev; see make deps)"
#endif

struct MHD_Connection;
struct MHD_Daemon;
struct pollfd;
struct qserve;
struct qserve_call;

/* ------------------------------------------------------------------- jobs */

/*
 * What a call asks of an engine: a request of qwen-engine(5).  A job that is
 * nobody's any more lives until its engine has told its end.
 */
struct qserve_job {
	struct qserve_job	*next;		/* of those that wait, or of
						   its engine's */
	struct qserve_call	*call;		/* NULL: nobody's */
	size_t			 i;		/* which one of the call's */
	double			 asked;		/* by cli_now(), if it is a
						   question */
	size_t			 slot;		/* of the table of all */
	char			 id[48];
	const struct qserve_engine *engine;	/* NULL: it waits */
	int			 started;	/* an engine began with it */
	int			 told;		/* something came of it */
	int			 is_question;	/* to this engine, which has
						   one event for an answer */
	unsigned		 n_sent;
};

/* What a call makes of its jobs, by their numbers. */
struct qserve_wants {
	/*
	 * Fill in the request except its id: 0, or -1 without memory.  Its
	 * borrowed parts live until the next call.
	 */
	int	(*make_request)(struct qserve_call *c, size_t i,
		    struct qwen_engine_request *o);
	/* what came; an end is the last */
	void	(*event)(struct qserve_call *c, size_t i,
		    const struct qwen_event *ev);
	/* there are no jobs any more: for codes see qwen_refusal_status() */
	void	(*fail)(struct qserve_call *c, const char *code,
		    const char *message);
};

/* ---------------------------------------------------------------- engines */

struct qserve_engine {
	struct qserve_engine	*next;
	struct qserve		*server;
	const char		*command;	/* for sh -c; NULL: our own */
	pid_t			 pid;		/* 0: it does not run */
	int			 to, from;	/* its stdin and stdout, or
						   -1 */
	struct qwen_text	 unsent;	/* requests, */
	size_t			 at;		/* as far as they are gone */
	struct qwen_inbox	 inbox;
	int			 ready;		/* its header came */
	struct qwen_hello	 hello;
	double			 start_at;	/* not before that, again */
	double			 silent_at;	/* when silence is told; 0: it
						   was */
	unsigned		 n_failed;	/* times in a row */
	uint64_t		 n_started;
	struct qserve_job	*jobs;
	size_t			 n_jobs;
	double			 heard;		/* time of its last event, or of
						   its first job since it was
						   idle */
	double			 owes;		/* time of its oldest question
						   without an answer; 0: none */
	int			 computed;	/* it has sent a result since
						   its start */
};

/* ------------------------------------------------------------------ calls */

struct qserve_conn {
	struct qserve_conn	*next, *prev;
	struct MHD_Connection	*mhd;
	int			 fd;
	struct qserve_call	*call;		/* or NULL: it is idle */
	double			 since;		/* that, by cli_now() */
};

struct qserve_route {
	const char	*method, *path;
	enum qwen_form	 form;		/* of errors */
	int		 open;		/* needs no key */
	void		(*handle)(struct qserve_call *c);
};

struct qserve_call {
	struct qserve_call	*next, *prev;
	struct qserve		*server;
	struct qserve_conn	*conn;
	const struct qserve_route *route;	/* NULL: there is none */
	const char		*method;	/* borrowed until it is
						   queued */
	char			*path;
	char			*host;		/* of http://host/path, or
						   NULL */
	enum qwen_form		 form;
	uint64_t		 number;	/* which nobody can guess */
	double			 since;
	struct qwen_text	 body;		/* as far as it came, */
	uint64_t		 n_body;	/* and what came in all */
	/* what answers it */
	int			 status;	/* 0: not known yet */
	const char		*type;		/* of out; NULL: JSON */
	struct qwen_text	 policy;	/* for a page, what it may do */
	const char		*origin;	/* of a page that may read it */
	int			 preflight;	/* and asks before it asks */
	int			 hangs_up;	/* at once, whatever comes */
	unsigned		 retry_s;	/* when to come again, or 0 */
	const char		*allow;		/* of a path, in place of
						   that */
	struct qwen_text	 out;		/* a body; events, */
	size_t			 at;		/* as far as they are gone */
	int			 streams;	/* events */
	int			 ended;		/* there are no more of them */
	/* where it is */
	int			 begun;		/* all of the request is here */
	int			 suspended;	/* its connection waits for
						   us */
	int			 queued;	/* the answer is under way */
	int			 dead;		/* nobody waits for that */
	/* what it needs engines for */
	const struct qserve_wants *wants;
	struct qserve_job	**jobs;		/* NULL: ended */
	size_t			 n_jobs, n_left;
	int			 restarted;
	const struct qserve_wants *chooses;	/* for what, while engines
						   are */
	size_t			 n_chooses;	/* asked, and how many jobs */
	double			 asks_until;	/* by cli_now(): it waits for
						   answers of engines until
						   then; 0: it waits for none */
	uint64_t		*has;		/* tokens, by each of them */
	struct qserve_engine	*prefers;	/* or NULL */
	double			 deadline;	/* by cli_now(); 0: none */
	double			 reads;		/* when the first engine
						   began */
	double			 first;		/* when something was told */
	uint64_t		 n_prompt;	/* tokens of prompts that
						   engines took */
	struct qserve_stat	*stats;		/* of engines, for metrics */
	/* answer.c */
	struct qwen_service	 service;	/* the server's, with an encoder
						   of prompts for this call */
	struct qwen_request	*q;
	struct qwen_sse		*sse;
	double			 spoke;		/* when it was told something */
	int			 has_news;	/* tokens came since */
	struct qwen_sampler	*sampler;
	char			*grammar;	/* GBNF, or NULL */
	size_t			 n_grammar;
	struct qwen_text	 sampling;	/* of the order made last */
	struct qserve_prompt	 about;		/* of a chat */
	struct qserve_ids	{
		int32_t	*id;
		size_t	 n, cap;
	}			*made;		/* of each answer to a chat */
	uint64_t		 created;
	struct qserve_vectors	*vectors;	/* or NULL, */
	struct qserve_ranking	*ranking;	/* likewise */
};

/* ---------------------------------------------------------------- metrics */

/* How often something took at most so long. */
enum { QSERVE_BOUNDS = 14 };

struct qserve_times {
	uint64_t	n, at_most[QSERVE_BOUNDS];
	double		sum;
};

struct qserve_totals {
	uint64_t	status[600];		/* calls by status */
	uint64_t	left;			/* whose client left */
	uint64_t	prompt, cached, chosen;	/* tokens */
	struct qserve_times ttft, tpot, e2e;
};

struct qserve_stat {
	int		there;
	uint64_t	v[QWEN_N_STATS];
};

/* ------------------------------------------------------------------ server */

enum { QSERVE_LISTENERS = 16 };

struct qserve {
	/* set by the caller */
	struct tool_service	 with;
	struct qwen_unknown	 unknown;
	struct cli_list		 listen;	/* where; none: the usual */
	struct cli_list		 commands;	/* of engines */
	struct cli_list		 engine_args;	/* options of our own */
	int			 makes_weights;	/* it does, others than the
						   model has */
	struct tool_store	 store;		/* of our own, too */
	struct qwen_vectors	 embedding;
	struct qserve_ranker	*ranker;
	struct cli_list		 ignore;	/* lines like these */
	int			 retokenize;	/* text that comes back */
	const char		*program;	/* its path */
	const char		*model_path;
	const char		*name;		/* of the model */
	struct cli_list		 aliases;	/* other names of it */
	const char		*key_file;
	struct cli_list		 hosts;		/* what we are called */
	struct cli_list		 cors;		/* origins that may ask */
	size_t			 max_waiting;	/* jobs, beside those that
						   run */
	uint64_t		 max_body;	/* bytes */
	uint64_t		 max_unread;
	unsigned		 max_connections;
	unsigned		 stall_s, idle_s;
	unsigned		 socket_mode;
	double			 timeout_s;	/* of a call; 0: none */
	/* our own */
	const struct qwen_gguf	*gguf;
	struct qwen_header	 header;
	struct qserve_history	*history;	/* or NULL */
	struct qserve_lines	*lines;		/* to be passed over */
	struct qserve_response	*oldest, *youngest;
	size_t			 n_response_bytes;
	struct cli_list		 keys;		/* none: nobody needs one */
	struct MHD_Daemon	*http;
	int			 http_fd;	/* to be polled */
	int			 listener[QSERVE_LISTENERS];
	const char		*listener_path[QSERVE_LISTENERS]; /* of a unix
						   socket of ours, or NULL */
	size_t			 n_listeners;
	size_t			 n_given;	/* of these, from systemd */
	double			 rest_until;	/* no accept(2) until then, or
						   until a connection closes,
						   since no descriptor was
						   left */
	struct qserve_conn	*conns;
	size_t			 n_conns;
	struct qserve_call	*calls;
	size_t			 n_calls;
	uint64_t		 n_body_bytes;	/* bytes of their bodies
						   together */
	struct qserve_engine	*engines;
	size_t			 n_engines;
	struct qserve_job	*waiting;	/* for an engine */
	struct qserve_job	**slot;
	size_t			 n_slots, cap_slots;
	size_t			 n_jobs;	/* but for questions */
	uint64_t		 n_made;	/* jobs, ever */
	int			 wake;		/* readable after a signal */
	double			 busy_at;	/* when there were calls; 0:
						   since then memory was
						   returned */
	int			 draining;
	double			 alone_at;	/* then, when nobody was left */
	int			 was_ready;	/* some engine was */
	uint64_t		 started;	/* seconds, of the epoch */
	time_t			 modified;	/* the model's file */
	struct qserve_totals	 totals;
};

/* --------------------------------------------------------------- listen.c */

/* Open the listeners, or die; and note their addresses. */
void qserve_listen(struct qserve *s);
void qserve_listeners_tell(const struct qserve *s);
void qserve_unlisten(struct qserve *s);

/* ---------------------------------------------------------------- guard.c */

/* Keys; and whether names and origins are such.  Dies. */
void qserve_guard_open(struct qserve *s);

/* Whether a call may be made: 0; or it is answered, and -1. */
int qserve_guard(struct qserve_call *c);

/* -------------------------------------------------------------- systemd.c */

/* What was opened for us, as listeners: how many. */
size_t qserve_given_sockets(struct qserve *s);

/* "READY=1", to who wants to know. */
void qserve_notify(const char *state);

/* ----------------------------------------------------------------- http.c */

/* A header of a call, or NULL. */
const char *qserve_header(const struct qserve_call *c, const char *name);

/* Free the body of the request. */
void qserve_body_free(struct qserve_call *c);

void qserve_http_open(struct qserve *s);	/* dies */
void qserve_http_close(struct qserve *s);

/* A client of a listener. */
void qserve_http_accept(struct qserve *s, int listener);

/* Whatever can be done without waiting. */
void qserve_http_run(struct qserve *s);

/* How long nothing need be done, in ms; -1: for ever. */
int qserve_http_patience(const struct qserve *s);

/* ----------------------------------------------------------------- call.c */

struct qserve_call *qserve_call_new(struct qserve *s, struct qserve_conn *conn,
    const char *method, const char *target);
void qserve_call_free(struct qserve_call *c);

/*
 * Take the call back to when its headers and body were read and its handler was
 * not called yet, and drop its answer.  None of that answer may be queued, and
 * the call must have no jobs.
 */
void qserve_call_rewind(struct qserve_call *c);

/* It goes on where it waited: status, or more of out, is there. */
void qserve_wake(struct qserve_call *c);

/*
 * The status of a call whose client left before it was answered, as others log
 * it.
 */
enum { QSERVE_LEFT = 499 };

/* Its client is gone: it is counted so, and its jobs end. */
void qserve_call_left(struct qserve_call *c);

/* The same, and its connection is shut. */
void qserve_drop(struct qserve_call *c);

/* Answer it: what out has; or, in place of that, an error. */
void qserve_done(struct qserve_call *c, int status);
void qserve_error(struct qserve_call *c, int status, const char *code,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* ---------------------------------------------------------------- about.c */

/* How many tokens a text may have; 0: no engine has told yet. */
uint64_t qserve_n_ctx(const struct qserve *s);

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

/* ---------------------------------------------------------------- route.c */

/*
 * The one of this method and path, or NULL: *status is 404, or 405 and *allow
 * what there is.
 */
const struct qserve_route *qserve_route(const char *method, const char *path,
    int *status, const char **allow);

/* --------------------------------------------------------------- engine.c */

void qserve_engines_open(struct qserve *s);

/*
 * Those whose time has come are started; ids that nobody has are passed over.
 */
void qserve_engines_tend(struct qserve *s, double now);

/* It is started, not ready, and nobody was told that this takes long. */
int qserve_engine_is_silent(const struct qserve_engine *e);

/* What poll(2) says: events are read. */
void qserve_engine_read(struct qserve_engine *e);
void qserve_engine_write(struct qserve_engine *e);

/* Seconds that one pass of an engine may take before its answer is late. */
enum { QSERVE_PASS_S = 2 };

/*
 * The seconds for which the engine has owed an answer to a question, which
 * engines answer between two passes; and whether that is so long that it seems
 * stuck.
 */
double qserve_engine_owes(const struct qserve_engine *e, double now);
int qserve_engine_is_stuck(const struct qserve_engine *e, double now);

/*
 * Ask engines that have sent nothing about their work a question, and kill
 * those that do not answer for --stall seconds, as if they had died.  now is a
 * time before the events that have come were read.
 */
void qserve_engines_watch(struct qserve *s, double now);

/* Send a request to the engine; -1 without memory. */
int qserve_engine_send(struct qserve_engine *e,
    const struct qwen_engine_request *o);

/* No more requests; then wait for the end of all. */
void qserve_engines_drain(struct qserve *s);
void qserve_engines_close(struct qserve *s);

/* ------------------------------------------------------------------ job.c */

/*
 * So many jobs for a call; -1, and an error told, if there are too many by now
 * (429), or what is asked is more than an engine takes.
 */
int qserve_jobs_new(struct qserve_call *c, size_t n,
    const struct qserve_wants *wants);
void qserve_jobs_make(struct qserve_call *c, size_t n,
    const struct qserve_wants *wants);

/*
 * Ask every engine that is ready and has not owed an answer for long; returns
 * the number of questions.  A question has the number of its engine.  Instead
 * of an answer, the call gets an end if the engine dies, or does not answer
 * within patience_s seconds.
 */
size_t qserve_ask_all(struct qserve_call *c, const struct qserve_wants *wants,
    double patience_s);

/* End the questions whose time is over. */
void qserve_questions_end(struct qserve *s, double now);

/* Ask an engine that owes no answer a question, to see whether it is alive. */
void qserve_engine_probe(struct qserve_engine *e);

/*
 * Whether the event tells that the engine works on nothing, while it got a
 * request before that was asked whose end has not come.
 */
int qserve_engine_forgot(const struct qserve_engine *e,
    const struct qwen_event *ev);

/* Those of a call are nobody's, and their engines are told; or one of them. */
void qserve_jobs_cancel(struct qserve_call *c);
void qserve_job_cancel(struct qserve_job *j);

/* Give those that wait to engines. */
void qserve_jobs_send(struct qserve *s);

/* An event of an engine. */
void qserve_job_event(struct qserve_engine *e, const struct qwen_event *ev);

/* The engine is gone: its jobs go to others, or fail. */
void qserve_jobs_lost(struct qserve_engine *e);

/*
 * At the end, when there are no calls, free the jobs that it has not answered.
 */
void qserve_jobs_free(struct qserve_engine *e);

/* --------------------------------------------------------------- choose.c */

/*
 * Find the engine that has most of the call's first prompt, and then make its
 * jobs: 1; or 0 if there is nothing to choose.
 */
int qserve_choose(struct qserve_call *c, size_t n,
    const struct qserve_wants *wants);

/* -------------------------------------------------------------- metrics.c */

/* A call is over. */
void qserve_count(struct qserve_call *c);

void qserve_metrics(struct qserve_call *c);	/* GET /metrics */

/* --------------------------------------------------------------- answer.c */

/*
 * The service that reads the request of this call.  Its encoder of prompts
 * notes in c->about what it finds.  It lives as long as the call.
 */
const struct qwen_service *qserve_service(struct qserve_call *c);

/* Completions and chats. */
void qserve_answer(struct qserve_call *c);
void qserve_answer_open(struct qserve *s);
void qserve_answer_fini(struct qserve_call *c);

/* The answers themselves, when what comes before them is done. */
void qserve_answer_generate(struct qserve_call *c);

/* It ends so, with what else is under way of it. */
void qserve_answer_fail(struct qserve_call *c, const char *code,
    const char *message);
void qserve_answer_ended(struct qserve_call *c, size_t i,
    const struct qwen_event *ev);

/* A code for the end of a job that was none, and a line for people. */
const char *qserve_why(const struct qwen_event *ev);
const char *qserve_message(const struct qwen_event *ev);

/*
 * When what came for a stream is to be told, 0 being never; and tell it, if it
 * is that late.
 */
double qserve_answer_due(const struct qserve_call *c);
void qserve_answer_tell(struct qserve_call *c, double now);

/* A stream in which nothing happens says so, now and then. */
void qserve_answer_idle(struct qserve_call *c, double now);

/* ----------------------------------------------------------------- echo.c */

/* Put prompts in front of answers, and then qserve_answer_generate(). */
void qserve_echo(struct qserve_call *c);

/* --------------------------------------------------------------- tokens.c */

void qserve_tokenize(struct qserve_call *c);
void qserve_detokenize(struct qserve_call *c);
void qserve_apply_template(struct qserve_call *c);
void qserve_count_tokens(struct qserve_call *c);

/* -------------------------------------------------------------- vectors.c */

/* Whether the model's file has this word in its names, as "embed". */
int qserve_is_named(const struct qserve *s, const char *word);

void qserve_vectors_open(struct qserve *s);
void qserve_vectors(struct qserve_call *c);
void qserve_ollama_embed(struct qserve_call *c);
void qserve_ollama_embeddings(struct qserve_call *c);
void qserve_vectors_fini(struct qserve_call *c);

/* ----------------------------------------------------------------- rank.c */

void qserve_rank_open(struct qserve *s);
void qserve_rank_close(struct qserve *s);
void qserve_rank(struct qserve_call *c);
void qserve_rank_fini(struct qserve_call *c);

/* --------------------------------------------------------------- recall.c */

void qserve_recall_open(struct qserve *s);
void qserve_recall_close(struct qserve *s);

/* An answer that is complete may be named by a later request. */
void qserve_response_keep(struct qserve_call *c);

/* GET and DELETE of one that is kept. */
void qserve_response_get(struct qserve_call *c);
void qserve_response_delete(struct qserve_call *c);

/* ----------------------------------------------------------------- loop.c */

void qserve_run(struct qserve *s);

#endif
