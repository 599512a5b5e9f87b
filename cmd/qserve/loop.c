/* SPDX-License-Identifier: ISC */
/*
 * loop.c - round and round: clients, engines, time.  Only poll(2) waits, for
 * all of them at once.
 */
#define _GNU_SOURCE	/* POLLRDHUP */
#include <sys/socket.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qserve.h"

#ifndef POLLRDHUP
#define POLLRDHUP 0
#endif

enum {
	TICK_MS = 1000,		/* how exact times are that nobody feels */
	DRAIN_S = 1,		/* for who is about to ask, at the end */
	CANCEL_S = 5,		/* for engines, to end what is nobody's */
	BODY_RATE = 16 << 10,	/* bytes a second: a body that comes slower
				   than that is not waited for */
};

static void
take_signal(struct qserve *s)
{
	struct qserve_engine *e;
	char b[16];
	size_t i;

	if (read(s->wake, b, sizeof b) <= 0 || s->draining)
		return;
	/* who is there already is told */
	for (i = 0; i < s->n_listeners; i++)
		qserve_http_accept(s, s->listener[i]);
	s->draining = 1;
	qserve_notify("STOPPING=1");
	tool_report_ending(s->n_calls, "answered");
	qserve_unlisten(s);
	/* an engine that does not answer need not be waited for */
	for (e = s->engines; e != NULL; e = e->next)
		qserve_engine_probe(e);
}

/* -------------------------------------------------------------------- poll */

struct polled {
	struct pollfd	*fd;
	size_t		 n, cap;
	size_t		 engines, calls;	/* where these begin */
};

static void
want(struct polled *p, int fd, short events)
{
	p->fd[p->n++] = (struct pollfd){ .fd = fd, .events = events };
}

/* Somebody waits for engines, who may leave. */
static int
is_awaited(const struct qserve_call *c)
{
	return c->n_left > 0 && !c->dead;
}

/* Two places for an engine; one for a client who waits. */
static void
gather(const struct qserve *s, struct polled *p)
{
	const struct qserve_engine *e;
	const struct qserve_call *c;
	int full = s->n_conns >= s->max_connections ||
	    s->rest_until > cli_now();
	size_t i;

	p->n = 0;
	want(p, s->wake, POLLIN);
	want(p, s->http_fd, POLLIN);
	for (i = 0; i < s->n_listeners; i++)
		want(p, full ? -1 : s->listener[i], POLLIN);
	p->engines = p->n;
	for (e = s->engines; e != NULL; e = e->next) {
		want(p, e->from, POLLIN);
		want(p, e->at < e->unsent.n ? e->to : -1, POLLOUT);
	}
	p->calls = p->n;
	for (c = s->calls; c != NULL; c = c->next) {
		if (is_awaited(c))
			want(p, c->conn->fd, POLLRDHUP);
	}
}

static int
least(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Until then, in ms. */
static int
wait_for(double at, double now)
{
	return at <= now ? 0 : (int)((at - now) * 1e3) + 1;
}

/* How long poll(2) may wait, in ms. */
static int
patience(const struct qserve *s)
{
	const struct qserve_engine *e;
	const struct qserve_call *c;
	double now = cli_now();
	int ms = least(qserve_http_patience(s),
	    s->n_conns > 0 || s->busy_at > 0 || s->draining ? TICK_MS : -1);

	if (s->rest_until > now)
		ms = least(ms, wait_for(s->rest_until, now));
	for (e = s->engines; e != NULL; e = e->next) {
		if (e->pid == 0)
			ms = least(ms, wait_for(e->start_at, now));
		else if (qserve_engine_is_silent(e))
			ms = least(ms, wait_for(e->silent_at, now));
	}
	for (c = s->calls; c != NULL; c = c->next) {
		if (qserve_answer_due(c) > 0)
			ms = least(ms, wait_for(qserve_answer_due(c), now));
		if (c->asks_until > 0)
			ms = least(ms, wait_for(c->asks_until, now));
	}
	return ms;
}

static void
read_engines(struct qserve *s, const struct polled *p)
{
	struct qserve_engine *e;
	size_t i = p->engines;

	for (e = s->engines; e != NULL; e = e->next, i += 2) {
		if (p->fd[i].revents != 0)
			qserve_engine_read(e);
	}
}

/* Who has left is not waited for. */
static void
see_who_left(struct qserve *s, const struct polled *p)
{
	struct qserve_call *c;
	size_t i = p->calls;

	for (c = s->calls; c != NULL; c = c->next) {
		if (is_awaited(c) && p->fd[i++].revents != 0)
			qserve_drop(c);
	}
}

/* What has come by now for streams. */
static void
tell_streams(struct qserve *s)
{
	double now = cli_now();
	struct qserve_call *c;

	for (c = s->calls; c != NULL; c = c->next)
		qserve_answer_tell(c, now);
}

static void
attend(struct qserve *s, struct polled *p)
{
	size_t i, n = s->n_listeners;
	int got;

	gather(s, p);
	do
		got = poll(p->fd, (nfds_t)p->n, patience(s));
	while (got == -1 && errno == EINTR);
	if (got == -1)
		die("poll: %s", strerror(errno));
	see_who_left(s, p);
	read_engines(s, p);
	qserve_questions_end(s, cli_now());
	tell_streams(s);
	if (p->fd[0].revents != 0)
		take_signal(s);
	for (i = 0; i < n && s->n_listeners > 0; i++) {
		if (p->fd[2 + i].revents != 0)
			qserve_http_accept(s, s->listener[i]);
	}
}

/* -------------------------------------------------------------------- time */

/* Until when the rest of its request must be here. */
static double
due(const struct qserve *s, const struct qserve_conn *c)
{
	const struct qserve_call *call = c->call;

	return call == NULL ? c->since + s->idle_s : call->since + s->stall_s +
	    (double)call->n_body / BODY_RATE;
}

/* Who asks nothing has closed its side: libmicrohttpd was busy then. */
static int
has_hung_up(const struct qserve_conn *c)
{
	char b;

	return recv(c->fd, &b, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/*
 * Connections on which nothing, or too little, comes: libmicrohttpd sees only
 * those that are silent.
 */
static void
look_at_clocks(struct qserve *s, double now)
{
	struct qserve_conn *c;

	for (c = s->conns; c != NULL; c = c->next) {
		if (c->call == NULL || !c->call->begun) {
			if (now > due(s, c) || (c->call == NULL &&
			    ((s->draining && now > c->since + DRAIN_S) ||
			    has_hung_up(c))))
				shutdown(c->fd, SHUT_RDWR);
		} else if (c->call->deadline > 0 && is_awaited(c->call) &&
		    now > c->call->deadline + 1)
			c->call->wants->fail(c->call, "deadline",
			    "the request timed out");
		else
			qserve_answer_idle(c->call, now);
	}
}

/* Who has rested for a second gives back what was freed. */
static void
rest(struct qserve *s, double now)
{
	if (s->n_calls > 0)
		s->busy_at = now;
	else if (s->busy_at > 0 && now > s->busy_at + 1) {
		tool_memory_return();
		s->busy_at = 0;
	}
}

/*
 * Nobody is here any more, and engines have ended what was for those who left:
 * they carry out all that they were asked for, unless it was cancelled.
 */
static int
is_over(struct qserve *s, double now)
{
	if (!s->draining || s->n_conns > 0)
		return 0;
	if (s->alone_at == 0)
		s->alone_at = now;
	return s->n_jobs == 0 || now > s->alone_at + CANCEL_S;
}

void
qserve_run(struct qserve *s)
{
	struct polled p = { 0 };
	struct qserve_engine *e;
	double now, looked = 0;

	s->wake = tool_wake_open();
	/* enough for all descriptors, so that it cannot fail later */
	cli_grow(&p.fd, &p.cap, 2 + s->n_listeners + 2 * s->n_engines +
	    s->max_connections, sizeof *p.fd);
	while (!is_over(s, now = cli_now())) {
		qserve_engines_tend(s, now);
		if (now >= looked + (s->draining ? 0.01 : 1)) {
			look_at_clocks(s, now);
			looked = now;
		}
		rest(s, now);
		qserve_jobs_send(s);
		for (e = s->engines; e != NULL; e = e->next)
			qserve_engine_write(e);
		attend(s, &p);
		qserve_engines_watch(s, now);
		qserve_http_run(s);
	}
	free(p.fd);
}
