/* SPDX-License-Identifier: ISC */
/*
 * engine.c - engine processes: start them, talk to them through pipes, and
 * restart them when they end.
 */
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "qserve.h"

enum {
	READ_MAX = 4 << 20,
	WAIT_MAX_S = 10,
	START_S = 10,		/* seconds until a new engine that is not ready
				   is reported */
	LAST_STALLS = 2,	/* longest silence, in multiples of --stall, of
				   an engine that saves its sessions at exit */
	FIRST_STALLS = 10,	/* longest wait for an engine's first result, in
				   multiples of --stall, since it may read the
				   weights from a disk */
	PROBE_S = 10,		/* seconds of silence before an engine with work
				   gets a question */
};

/* ---------------------------------------------------------------- processes */

/*
 * In the child process: connect stdin and stdout to the pipes, run the engine.
 */
static void
run_engine(const struct qserve_engine *e, int in, int out)
{
	const struct cli_list *args = &e->server->engine_args;
	char **argv = calloc(args->n + 2, sizeof *argv);
	size_t i;

	/* signals of the terminal are for qserve only */
	setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	if (argv == NULL || dup2(in, STDIN_FILENO) == -1 ||
	    dup2(out, STDOUT_FILENO) == -1)
		_exit(126);
	if (e->command != NULL) {
		execl("/bin/sh", "sh", "-c", e->command, (char *)NULL);
		_exit(127);
	}
	argv[0] = (char *)(uintptr_t)e->server->program;
	for (i = 0; i < args->n; i++)
		argv[i + 1] = (char *)(uintptr_t)args->v[i];
	execvp(argv[0], argv);
	_exit(127);
}

static void
hang_up(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

/* Create a pipe; fd[ours], which this process keeps, does not block. */
static int
make_pipe(int fd[2], int ours)
{
	return pipe(fd) == -1 || tool_fd_prepare(fd[ours]) == -1 ||
	    fcntl(fd[!ours], F_SETFD, FD_CLOEXEC) == -1 ? -1 : 0;
}

static int
send_hello(struct qserve_engine *e)
{
	const struct qwen_header *h = &e->server->header;
	struct qwen_engine_request o = { .kind = QWEN_ENGINE_HELLO, .hello = {
		.has_vocab = 1, .has_model = !e->server->quantizes,
		.vocab = h->vocab, .model = h->model } };

	return qserve_engine_send(e, &o);
}

static const char *
name_of(const struct qserve_engine *e)
{
	return e->command != NULL ? e->command : e->server->program;
}

static int
all_have_failed(const struct qserve *s)
{
	const struct qserve_engine *e;

	for (e = s->engines; e != NULL && e->n_failed > 0; e = e->next)
		;
	return e == NULL;
}

/* Set when to start the engine again; the delay grows with each failure. */
static void
delay_start(struct qserve_engine *e)
{
	double wait = (double)(1u << (e->n_failed < 8 ? e->n_failed : 8)) / 8;

	e->n_failed++;
	e->start_at = cli_now() + (wait < WAIT_MAX_S ? wait : WAIT_MAX_S);
}

static void
start_engine(struct qserve_engine *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 };
	int why = 0;

	if (make_pipe(in, 1) == -1 || make_pipe(out, 0) == -1 ||
	    (e->pid = fork()) == -1)
		why = errno;
	if (why == 0 && e->pid == 0)
		run_engine(e, in[0], out[1]);
	hang_up(&in[0]);
	hang_up(&out[1]);
	if (why != 0) {
		hang_up(&in[1]);
		hang_up(&out[0]);
		e->pid = 0;
		/* for lack of memory or descriptors: try again later */
		delay_start(e);
		if (!e->server->was_ready && all_have_failed(e->server))
			die("%s: cannot start it: %s", name_of(e),
			    strerror(why));
		if (e->n_failed == 1)
			cli_note("%s: cannot start it, will try again: %s",
			    name_of(e), strerror(why));
		return;
	}
	e->to = in[1];
	e->from = out[0];
	e->n_started++;
	e->report_at = cli_now() + START_S;
}

/*
 * Wait for the end of the engine, after killing it if kill_it is set.  Describe
 * its exit status in how; return 0 if it is 0, else -1.
 */
static int
reap_engine(struct qserve_engine *e, int kill_it, char *how, size_t n)
{
	int st = 0;

	hang_up(&e->to);
	hang_up(&e->from);
	if (kill_it)
		kill(-e->pid, SIGKILL);
	while (waitpid(e->pid, &st, 0) == -1 && errno == EINTR)
		;
	e->pid = 0;
	e->ready = 0;
	e->computed = 0;
	e->at = 0;
	qwen_text_fini(&e->unsent);
	qwen_inbox_fini(&e->inbox);
	if (WIFSIGNALED(st))
		snprintf(how, n, "signal %d", WTERMSIG(st));
	else
		snprintf(how, n, "status %d", WEXITSTATUS(st));
	return st == 0 ? 0 : -1;
}

/*
 * Return 1 if the engine, which closed its output, exits within 0.1 s; then its
 * exit status is its own.
 */
static int
ends_soon(const struct qserve_engine *e)
{
	static const struct timespec ms = { 0, 1000000 };
	siginfo_t si;
	int left;

	for (left = 100; left > 0; left--) {
		memset(&si, 0, sizeof si);
		if (waitid(P_PID, (id_t)e->pid, &si, WEXITED | WNOHANG |
		    WNOWAIT) == 0 && si.si_pid == e->pid)
			return 1;
		nanosleep(&ms, NULL);
	}
	return 0;
}

/*
 * Drop the engine, killing it if it still runs, and report why.  why NULL: its
 * output was closed.
 */
static void
drop_engine(struct qserve_engine *e, const char *why)
{
	struct qserve *s = e->server;
	int ended = why == NULL && ends_soon(e);
	char how[64];

	reap_engine(e, 1, how, sizeof how);
	/* we killed it: its signal says nothing */
	if (!ended)
		snprintf(how, sizeof how, "killed");
	if (why == NULL)
		why = ended ? "it has ended" : "it has closed its output";
	delay_start(e);
	if (!s->was_ready && all_have_failed(s))
		die("%s: %s before it was ready (%s)", name_of(e), why, how);
	if (!s->draining)
		cli_note("%s: %s (%s)", name_of(e), why, how);
	qserve_jobs_lost(e);
}

void
qserve_engines_open(struct qserve *s)
{
	struct qserve_engine **at = &s->engines, *e;
	size_t i;

	for (i = 0; i == 0 || i < s->commands.n; i++) {
		*at = e = cli_check_alloc(calloc(1, sizeof *e));
		e->server = s;
		e->to = e->from = -1;
		e->command = s->commands.n > 0 ? s->commands.v[i] : NULL;
		at = &e->next;
		s->n_engines++;
	}
}

uint64_t
qserve_n_ctx(const struct qserve *s)
{
	const struct qserve_engine *e;
	uint64_t n = 0;

	for (e = s->engines; e != NULL; e = e->next) {
		if (e->ready && (n == 0 || e->hello.n_ctx < n))
			n = e->hello.n_ctx;
	}
	return n;
}

int
qserve_engine_is_starting(const struct qserve_engine *e)
{
	return e->pid != 0 && !e->ready && e->report_at > 0;
}

void
qserve_engines_start(struct qserve *s, double now)
{
	struct qserve_engine *e;

	for (e = s->engines; e != NULL; e = e->next) {
		if (e->pid == 0 && e->start_at <= now && !s->draining) {
			start_engine(e);
			if (e->pid != 0 && send_hello(e) < 0)
				drop_engine(e, "out of memory");
		}
		if (qserve_engine_is_starting(e) && e->report_at <= now) {
			cli_note("%s: not ready after %d s",
			    name_of(e), START_S);
			e->report_at = 0;
		}
	}
}

double
qserve_engine_unanswered_s(const struct qserve_engine *e, double now)
{
	return e->asked_at > 0 && now > e->asked_at ? now - e->asked_at : 0;
}

/* Return how many seconds the engine may owe an answer before it is killed. */
static double
stall_s(const struct qserve_engine *e)
{
	return QSERVE_PASS_S + (double)e->server->stall_s *
	    (e->computed ? 1 : FIRST_STALLS);
}

double
qserve_engine_kill_at(const struct qserve_engine *e)
{
	return e->asked_at > 0 ? e->asked_at + stall_s(e) : 0;
}

int
qserve_engine_is_stuck(const struct qserve_engine *e, double now)
{
	return qserve_engine_unanswered_s(e, now) > QSERVE_PASS_S +
	    stall_s(e) / 4;
}

void
qserve_engines_watch(struct qserve *s, double now)
{
	struct qserve_engine *e;
	char why[80];

	for (e = s->engines; e != NULL; e = e->next) {
		if (e->n_jobs > 0 && now > e->heard_at + PROBE_S)
			qserve_engine_probe(e);
		if (qserve_engine_unanswered_s(e, now) <= stall_s(e))
			continue;
		snprintf(why, sizeof why, "no answer for %.0f s",
		    qserve_engine_unanswered_s(e, now));
		drop_engine(e, why);
	}
}

/* ----------------------------------------------------------------- requests */

int
qserve_engine_send(struct qserve_engine *e, const struct qwen_engine_request *o)
{
	size_t n = e->unsent.n;

	if (e->to == -1)
		return 0;
	qwen_engine_request_encode(o, &e->unsent, 0);
	if (!e->unsent.failed)
		return 0;
	/* drop the incomplete request */
	e->unsent.failed = 0;
	e->unsent.n = n;
	return -1;
}

void
qserve_engine_write(struct qserve_engine *e)
{
	ssize_t n;

	while (e->to != -1 && e->at < e->unsent.n) {
		n = write(e->to, e->unsent.s + e->at, e->unsent.n - e->at);
		if (n == -1 && errno == EINTR)
			continue;
		/* qserve_engine_read() notices that the engine has ended */
		if (n == -1)
			return;
		tool_sent(&e->unsent, &e->at, (size_t)n);
	}
}

/* ------------------------------------------------------------------- events */

/*
 * Return what is wrong with a new engine: another model, or settings with other
 * results than those of the ready engines.  NULL if nothing is.
 */
static const char *
differs(const struct qserve_engine *e, const struct qwen_hello *h)
{
	const struct qwen_header *own = &e->server->header;
	const struct qserve_engine *x;

	if (memcmp(&h->vocab, &own->vocab, sizeof h->vocab) != 0 ||
	    (!e->server->quantizes &&
	    memcmp(&h->model, &own->model, sizeof h->model) != 0))
		return "the requests are for another model";
	for (x = e->server->engines; x != NULL; x = x->next) {
		if (x == e || !x->ready)
			continue;
		if (x->hello.numerics != h->numerics)
			return "its numerics version is not that of the other "
			    "engines; see --numerics";
		if (x->hello.k != h->k || x->hello.v != h->v)
			return "its format of keys or values is not that of "
			    "the other engines; see --kv";
		if (!qwen_rope_same(&x->hello.rope, &h->rope))
			return "its RoPE scaling is not that of the other "
			    "engines; see --rope-scaling";
	}
	return NULL;
}

/* Handle the engine's header: 1, or 0 if the engine was dropped. */
static int
handle_hello(struct qserve_engine *e, const struct qwen_event *ev)
{
	struct qserve *s = e->server;
	const char *why = differs(e, &ev->hello);

	if (why != NULL) {
		drop_engine(e, why);
		return 0;
	}
	e->hello = ev->hello;
	e->ready = 1;
	e->n_failed = 0;
	s->with.service.n_ctx = (size_t)qserve_n_ctx(s);
	if (cli_verbose && (e->n_started > 1 || s->commands.n > 1))
		cli_note("%s: ready", name_of(e));
	if (!s->was_ready)
		qserve_notify_systemd("READY=1");
	s->was_ready = 1;
	return 1;
}

/* Handle an event: 1, or 0 if the engine was dropped. */
static int
handle_event(struct qserve_engine *e, const struct qwen_event *ev)
{
	e->heard_at = cli_now();
	if (ev->kind == QWEN_EVENT_HELLO)
		return handle_hello(e, ev);
	if (qserve_engine_forgot(e, ev)) {
		drop_engine(e, "it is idle, but has not answered all requests");
		return 0;
	}
	if (ev->kind != QWEN_EVENT_ERROR)
		qserve_job_event(e, ev);
	else if (strcmp(ev->error, "bad_stream") == 0 ||
	    strcmp(ev->error, "mismatch") == 0) {
		drop_engine(e, ev->message);
		return 0;
	} else
		warn("%s: %s", name_of(e), ev->message);
	return 1;
}

/* Handle the events that have arrived: 1, or 0 if the engine was dropped. */
static int
handle_events(struct qserve_engine *e)
{
	const unsigned char *p;
	struct qwen_event ev;
	struct qwen_err err;
	int got, rc = 1;
	size_t n;

	while (rc && (got = qwen_inbox_next(&e->inbox, QWEN_EVENT_MAX, &p, &n,
	    &err)) != 0) {
		memset(&ev, 0, sizeof ev);
		if (got < 0 || qwen_event_decode(&ev, p, n, &err) < 0) {
			qwen_event_fini(&ev);
			drop_engine(e, err.code == QWEN_ENOMEM ?
			    "out of memory" : "its output is not an event");
			return 0;
		}
		rc = handle_event(e, &ev);
		qwen_event_fini(&ev);
	}
	return rc;
}

void
qserve_engine_read(struct qserve_engine *e)
{
	size_t room, all = 0;
	unsigned char *p;
	ssize_t n;

	while (e->from != -1 && all < READ_MAX) {
		if ((p = qwen_inbox_reserve(&e->inbox, &room)) == NULL) {
			drop_engine(e, "out of memory");
			return;
		}
		n = read(e->from, p, room);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0) {
			drop_engine(e, NULL);
			return;
		}
		qwen_inbox_added(&e->inbox, (size_t)n);
		all += (size_t)n;
		/* the pipe is probably empty; if not, poll(2) returns */
		if (!handle_events(e) || (size_t)n < room)
			return;
	}
}

/* ------------------------------------------------------------------ exit */

/*
 * Read the engine's output to its end: 1; 0 after stall_s seconds of silence.
 */
static int
has_ended(const struct qserve_engine *e, double stall_s)
{
	struct pollfd p = { .fd = e->from, .events = POLLIN };
	char buf[4096];
	ssize_t n;
	int got;

	do {
		if ((got = poll(&p, 1, (int)(stall_s * 1e3))) == 0)
			return 0;
		n = got == -1 ? -1 : read(e->from, buf, sizeof buf);
	} while (n > 0 || (n == -1 && (errno == EINTR || errno == EAGAIN)));
	return 1;
}

void
qserve_engines_close(struct qserve *s)
{
	struct qserve_engine *e;
	char how[64];
	int ended;

	/* engines save their sessions and exit */
	for (e = s->engines; e != NULL; e = e->next)
		hang_up(&e->to);
	for (e = s->engines; e != NULL; e = e->next) {
		if (e->pid == 0)
			continue;
		ended = has_ended(e, LAST_STALLS * s->stall_s);
		if (!ended)
			warn("%s: did not end in time: killed", name_of(e));
		if (reap_engine(e, !ended, how, sizeof how) < 0 && ended)
			warn("%s: ended with %s", name_of(e), how);
	}
}
