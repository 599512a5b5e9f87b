/* SPDX-License-Identifier: ISC */
/*
 * loop.c - the main loop: clients, engines, time limits.  Only poll(2) waits.
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
	TICK_MS = 1000,		/* interval in which time limits are checked */
	DRAIN_S = 1,		/* seconds that idle clients have for a last
				   request */
	CANCEL_S = 5,		/* seconds that engines have to end cancelled
				   jobs */
	BODY_RATE = 16 << 10,	/* least speed of a request body, bytes per
				   second */
};

static void
handle_signal(struct qserve *s)
{
	struct qserve_engine *e;
	char b[16];
	size_t i;

	if (read(s->wake, b, sizeof b) <= 0 || s->draining)
		return;
	/* accept the clients that wait already: they get an answer */
	for (i = 0; i < s->n_listeners; i++)
		qserve_http_accept(s, s->listener[i]);
	s->draining = 1;
	qserve_notify_systemd("STOPPING=1");
	tool_report_ending(s->n_calls, "answered");
	qserve_unlisten(s);
	/* to detect engines that are stuck and kill them */
	for (e = s->engines; e != NULL; e = e->next)
		qserve_engine_probe(e);
}

/* -------------------------------------------------------------------- poll */

struct polled {
	struct tool_polled all;
	size_t		 engines, calls;	/* index of the first entry of
						   each; the image is before
						   engines */
};

/*
 * Return 1 if the call waits for engines or images; its client may leave
 * meanwhile.
 */
static int
is_awaited(const struct qserve_call *c)
{
	return (c->n_left > 0 || c->images.then != NULL) && !c->client_left;
}

/*
 * Fill the list of descriptors; an engine has two entries, a waiting client
 * one.
 */
static void
fill_pollfds(const struct qserve *s, struct polled *p)
{
	const struct qserve_engine *e;
	const struct qserve_call *c;
	int full = s->n_conns >= s->max_connections ||
	    s->no_accept_until > cli_now();
	size_t i;

	p->all.n = 0;
	tool_poll_add(&p->all, s->wake, POLLIN);
	tool_poll_add(&p->all, s->http_fd, POLLIN);
	for (i = 0; i < s->n_listeners; i++)
		tool_poll_add(&p->all, full ? -1 : s->listener[i], POLLIN);
	tool_poll_add(&p->all, s->images.pid != 0 ? s->images.said : -1,
	    POLLIN);
	p->engines = p->all.n;
	for (e = s->engines; e != NULL; e = e->next) {
		tool_poll_add(&p->all, e->from, POLLIN);
		tool_poll_add(&p->all, e->at < e->unsent.n ? e->to : -1,
		    POLLOUT);
	}
	p->calls = p->all.n;
	for (c = s->calls; c != NULL; c = c->next) {
		if (is_awaited(c))
			tool_poll_add(&p->all, c->conn->fd, POLLRDHUP);
	}
}

static int
least(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Return the ms until a time. */
static int
wait_for(double at, double now)
{
	return at <= now ? 0 : (int)((at - now) * 1e3) + 1;
}

/* Return the timeout of poll(2) in ms; -1: none. */
static int
poll_timeout(const struct qserve *s)
{
	const struct qserve_engine *e;
	const struct qserve_call *c;
	double now = cli_now();
	int ms = least(qserve_http_timeout(s),
	    s->n_conns > 0 || s->busy_at > 0 || s->draining ? TICK_MS : -1);

	if (s->no_accept_until > now)
		ms = least(ms, wait_for(s->no_accept_until, now));
	for (e = s->engines; e != NULL; e = e->next) {
		if (e->pid == 0)
			ms = least(ms, wait_for(e->start_at, now));
		else if (qserve_engine_is_starting(e))
			ms = least(ms, wait_for(e->report_at, now));
		/* also when no client is left to wait for the answer */
		if (qserve_engine_kill_at(e) > 0)
			ms = least(ms, wait_for(qserve_engine_kill_at(e), now));
	}
	for (c = s->calls; c != NULL; c = c->next) {
		if (qserve_answer_flush_at(c) > 0)
			ms = least(ms, wait_for(qserve_answer_flush_at(c),
			    now));
		if (c->asks_until > 0)
			ms = least(ms, wait_for(c->asks_until, now));
	}
	return ms;
}

static void
poll_once(struct qserve *s, struct polled *p)
{
	size_t i, n = s->n_listeners;
	struct qserve_engine *e;
	struct qserve_call *c;
	double now;

	fill_pollfds(s, p);
	tool_poll(&p->all, poll_timeout(s));
	/* drop the calls whose clients have left */
	i = p->calls;
	for (c = s->calls; c != NULL; c = c->next) {
		if (is_awaited(c) && p->all.fd[i++].revents != 0)
			qserve_call_drop(c);
	}
	i = p->engines;
	for (e = s->engines; e != NULL; e = e->next, i += 2) {
		if (p->all.fd[i].revents != 0)
			qserve_engine_read(e);
	}
	now = cli_now();
	qserve_questions_end(s, now);
	for (c = s->calls; c != NULL; c = c->next)
		qserve_answer_flush(c, now);
	if (p->all.fd[0].revents != 0)
		handle_signal(s);
	for (i = 0; i < n && s->n_listeners > 0; i++) {
		if (p->all.fd[2 + i].revents != 0)
			qserve_http_accept(s, s->listener[i]);
	}
}

/* -------------------------------------------------------------------- time */

/* Return the time by which the rest of the request must arrive. */
static double
request_deadline(const struct qserve *s, const struct qserve_conn *c)
{
	const struct qserve_call *call = c->call;

	return call == NULL ? c->since + s->idle_s : call->since + s->stall_s +
	    (double)call->n_body / BODY_RATE;
}

/*
 * Close connections that are silent or too slow, since MHD notices only silent
 * ones; end late calls; keep idle streams alive.
 */
static void
check_timeouts(struct qserve *s, double now)
{
	struct qserve_conn *c;
	char b;

	for (c = s->conns; c != NULL; c = c->next) {
		if (c->call == NULL || !c->call->received) {
			if (now > request_deadline(s, c) || (c->call == NULL &&
			    ((s->draining && now > c->since + DRAIN_S) ||
			    recv(c->fd, &b, 1, MSG_PEEK | MSG_DONTWAIT) == 0)))
				shutdown(c->fd, SHUT_RDWR);
		} else if (c->call->deadline > 0 && c->call->n_left > 0 &&
		    !c->call->client_left &&
		    now > c->call->deadline + 1)
			c->call->handler->fail(c->call, "deadline",
			    "the request timed out");
		else
			qserve_answer_keep_alive(c->call, now);
	}
}

/*
 * Return 1 if the server can exit: no client is connected, and engines have
 * ended all jobs.  Jobs that are not cancelled are always completed.
 */
static int
is_over(struct qserve *s, double now)
{
	if (!s->draining || s->n_conns > 0)
		return 0;
	if (s->no_client_at == 0)
		s->no_client_at = now;
	return s->n_jobs == 0 || now > s->no_client_at + CANCEL_S;
}

void
qserve_run(struct qserve *s)
{
	struct polled p = { 0 };
	struct qserve_engine *e;
	double now, checked_at = 0;

	s->wake = tool_wake_open();
	/* enough for all descriptors, so that it cannot fail later */
	cli_grow(&p.all.fd, &p.all.cap, 3 + s->n_listeners + 2 * s->n_engines +
	    s->max_connections, sizeof *p.all.fd);
	while (!is_over(s, now = cli_now())) {
		qserve_engines_start(s, now);
		if (now >= checked_at + (s->draining ? 0.01 : 1)) {
			check_timeouts(s, now);
			checked_at = now;
		}
		if (s->n_calls > 0)
			s->busy_at = now;
		else if (s->busy_at > 0 && now > s->busy_at + 1) {
			/* after a second without calls */
			tool_memory_return();
			s->busy_at = 0;
		}
		qserve_images_run(s, now);
		qserve_jobs_send(s);
		for (e = s->engines; e != NULL; e = e->next)
			qserve_engine_write(e);
		poll_once(s, &p);
		qserve_engines_watch(s, now);
		qserve_http_run(s);
	}
	free(p.all.fd);
}
