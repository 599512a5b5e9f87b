/* SPDX-License-Identifier: ISC */
/*
 * run.c - the main loop: read requests, compute one pass, write events.
 *
 * Only poll(2) waits, and only if there is nothing to compute.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "qengine.h"

enum {
	CLIENTS_MAX = 256, TICK_MS = 1000,
	READS_MAX = 1024,	/* of a pipe before the next pass: the rows of an
				   image */
};

static int
any_client(const struct qengine *e, int (*is)(const struct qengine_client *c))
{
	const struct qengine_client *c;

	for (c = e->clients; c != NULL && !is(c); c = c->next)
		;
	return c != NULL;
}

/*
 * Return 1 if the pipe's reader is too slow: the computation waits for it,
 * since there is no other client.
 */
static int
is_slow(const struct qengine_client *c)
{
	return c->is_pipe && qengine_unread(c) > c->engine->max_unread;
}

static int
has_unread(const struct qengine_client *c)
{
	return qengine_unread(c) > 0;
}

/* Return 1 if requests that waited for room can be handled now. */
static int
has_room(const struct qengine_client *c)
{
	return c->is_blocked && !qengine_client_waits(c);
}

/* Return the timeout of poll(2) in ms; -1: none. */
static int
poll_timeout(const struct qengine *e)
{
	if (any_client(e, has_room))
		return 0;
	if (qwen_work_n_jobs(e->work.work) > 0)
		return any_client(e, is_slow) ? TICK_MS : 0;
	if (e->may_store)
		return 0;
	return any_client(e, has_unread) || e->has_garbage ? TICK_MS : -1;
}

/* ------------------------------------------------------------------- poll */

/*
 * Fill the list of descriptors; each client has two entries: input and output.
 */
static void
fill_pollfds(struct qengine *e, struct tool_polled *p)
{
	struct qengine_client *c;
	int in;

	p->n = 0;
	tool_poll_add(p, e->wake, POLLIN);
	tool_poll_add(p, e->draining || e->out_of_fds ||
	    e->n_clients >= CLIENTS_MAX ? -1 : e->listener, POLLIN);
	for (c = e->clients; c != NULL; c = c->next) {
		in = !c->eof && !qengine_client_waits(c);
		if (c->is_pipe) {
			tool_poll_add(p, in ? c->in : -1, POLLIN);
			/*
			 * events 0: poll(2) still reports that the reader left
			 */
			tool_poll_add(p, c->out, qengine_unread(c) > 0 ?
			    POLLOUT : 0);
		} else {
			tool_poll_add(p, c->in, (short)((in ? POLLIN : 0) |
			    (qengine_unread(c) > 0 ? POLLOUT : 0)));
			tool_poll_add(p, -1, 0);
		}
	}
}

static void
set_ready(struct qengine *e, const struct tool_polled *p)
{
	struct qengine_client *c;
	short r[2];
	size_t i = 2;

	for (c = e->clients; c != NULL; c = c->next, i += 2) {
		r[0] = p->fd[i].revents;
		r[1] = p->fd[i + 1].revents;
		c->readable = (r[0] & (POLLIN | POLLHUP | POLLERR)) != 0 &&
		    !c->eof;
		/*
		 * a socket closed in both directions, or a pipe without reader
		 */
		if (c->is_pipe ? (r[1] & (POLLERR | POLLNVAL)) != 0 :
		    (r[0] & (POLLHUP | POLLERR)) != 0 && (r[0] & POLLIN) == 0)
			c->gone_errno = EPIPE;
	}
}

/*
 * Accept new clients.  If descriptors run out, stop accepting until a client
 * leaves.
 */
static void
accept_clients(struct qengine *e)
{
	int fd;

	while (e->n_clients < CLIENTS_MAX) {
		if ((fd = tool_socket_accept(e->listener)) == -1) {
			e->out_of_fds = e->n_clients > 0 && (errno == EMFILE ||
			    errno == ENFILE || errno == ENOMEM);
			return;
		}
		qengine_client_new(e, fd, fd);
	}
}

static void
poll_once(struct qengine *e, struct tool_polled *p)
{
	struct qengine_client *c;
	char b[16];
	int got, i;

	fill_pollfds(e, p);
	got = tool_poll(p, poll_timeout(e));
	if (got == 0 && e->has_garbage && !e->may_store &&
	    qwen_work_n_jobs(e->work.work) == 0) {
		tool_memory_return();
		e->has_garbage = 0;
	}
	set_ready(e, p);
	if (p->fd[0].revents != 0 && read(e->wake, b, sizeof b) > 0 &&
	    !e->draining) {
		e->draining = 1;
		tool_report_ending(qwen_work_n_jobs(e->work.work), "done");
	}
	for (c = e->clients; c != NULL; c = c->next) {
		i = READS_MAX;
		do {
			if (c->readable && !c->gone_errno)
				qengine_client_read(c);
			qengine_client_handle(c);
		} while (--i > 0 && c->readable &&
		    qengine_client_has_more(c));
	}
	if (p->fd[1].revents != 0)
		accept_clients(e);
}

/* ----------------------------------------------------------------- the loop */

/* Free the clients that left, are done or have stalled. */
static void
free_clients(struct qengine *e)
{
	struct qengine_client *c, *next;

	for (c = e->clients; c != NULL; c = next) {
		next = c->next;
		if (!c->gone_errno && !c->is_pipe && qengine_unread(c) > 0 &&
		    cli_now() - c->since > e->stall_s) {
			c->gone_errno = 1;
			e->n_dropped++;
		}
		/* not before it has all results and will send nothing more */
		if (!c->gone_errno && (c->jobs != NULL ||
		    qengine_unread(c) > 0 || !(c->broken || e->draining ||
		    (c->eof && c->inbox.start == c->inbox.end))))
			continue;
		if (c->gone_errno && c->is_pipe)
			e->failed = c->gone_errno;
		qengine_client_free(c);
		e->out_of_fds = 0;
	}
}

void
qengine_run(struct qengine *e)
{
	struct tool_polled p = { 0 };
	struct qengine_client *c;

	e->wake = tool_wake_open();
	while (e->clients != NULL || (e->listener != -1 && !e->draining)) {
		poll_once(e, &p);
		qengine_deadlines(e);
		free_clients(e);
		if (qwen_work_n_jobs(e->work.work) > 0) {
			e->has_garbage = 1;
			if (!any_client(e, is_slow))
				tool_work_step(&e->work);
		} else if (e->may_store)
			e->may_store = cli_must(NULL, qwen_work_store(
			    e->work.work, &cli_err));
		for (c = e->clients; c != NULL; c = c->next) {
			if (!c->gone_errno)
				qengine_client_write(c);
		}
		/*
		 * not only in the next round, since poll(2) could wait forever
		 */
		free_clients(e);
	}
	while (cli_must(NULL, qwen_work_store(e->work.work, &cli_err)))
		;
	free(p.fd);
	/* exit with an error only after prefixes are stored */
	if (e->failed != 0) {
		errno = e->failed;
		qwen_fail_errno(&cli_err, "write");
		cli_die_err("stdout", &cli_err);
	}
}
