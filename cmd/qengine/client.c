/* SPDX-License-Identifier: ISC */
/*
 * client.c - read from and write to clients without blocking.
 *
 * Events that a client does not read are kept up to a limit.  Beyond it, a
 * client of a socket is dropped; with a pipe, the computation waits for the
 * reader (run.c).
 */
#include <sys/socket.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qengine.h"

/* PIPE_BUF of Linux: a writable pipe takes this many bytes without blocking. */
enum {
	WRITE_BYTES = 4096,
	READ_MAX = 1 << 20,
	PIPE_FULL = 1 << 16,	/* bytes: the writer may wait for room */
	WAIT_MS = 1,		/* for the writer of a full pipe */
};

struct qengine_client *
qengine_client_new(struct qengine *e, int in, int out)
{
	struct qengine_client *c = cli_check_alloc(calloc(1, sizeof *c));

	c->engine = e;
	c->in = in;
	c->out = out;
	c->is_pipe = in != out;
	c->next = e->clients;
	e->clients = c;
	e->n_clients++;
	return c;
}

void
qengine_client_free(struct qengine_client *c)
{
	struct qengine *e = c->engine;
	struct qengine_client **at = &e->clients;
	char buf[4096];

	c->gone_errno = 1;
	/* on_end() removes a job from the list */
	while (c->jobs != NULL)
		qwen_work_cancel(e->work.work, c->jobs);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	e->n_clients--;
	if (!c->is_pipe) {
		/* or close would reset the connection: events could be lost */
		shutdown(c->in, SHUT_RD);
		while (recv(c->in, buf, sizeof buf, MSG_DONTWAIT) > 0)
			;
		close(c->in);
	}
	qwen_inbox_fini(&c->inbox);
	qwen_text_fini(&c->unread);
	free(c);
}

/* ------------------------------------------------------------------ events */

size_t
qengine_unread(const struct qengine_client *c)
{
	return c->unread.n - c->at;
}

void
qengine_send_event(struct qengine_client *c, const struct qwen_event *ev)
{
	if (c->gone_errno)
		return;
	if (qengine_unread(c) == 0)
		c->since = cli_now();
	qwen_event_encode(ev, &c->unread, c->form == QENGINE_JSON);
	if (!c->unread.failed && (c->is_pipe ||
	    qengine_unread(c) <= c->engine->max_unread))
		return;
	if (c->unread.failed && c->is_pipe)
		die("out of memory");
	c->gone_errno = 1;
	c->engine->n_dropped++;
}

static ssize_t
send_bytes(struct qengine_client *c, const char *p, size_t n)
{
	struct pollfd fd = { .fd = c->out, .events = POLLOUT };

	if (!c->is_pipe)
		return send(c->out, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (poll(&fd, 1, 0) != 1) {
		errno = EAGAIN;
		return -1;
	}
	return write(c->out, p, n < WRITE_BYTES ? n : WRITE_BYTES);
}

void
qengine_client_write(struct qengine_client *c)
{
	ssize_t n;

	while (qengine_unread(c) > 0) {
		n = send_bytes(c, c->unread.s + c->at, qengine_unread(c));
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1) {
			if (errno != EAGAIN && errno != EWOULDBLOCK)
				c->gone_errno = errno;
			return;
		}
		tool_sent(&c->unread, &c->at, (size_t)n);
		c->since = cli_now();
	}
}

/* ---------------------------------------------------------------- requests */

/* Report that the client's input is malformed and ignore the rest of it. */
static void
refuse_input(struct qengine_client *c, const char *message)
{
	struct qwen_event ev = { .kind = QWEN_EVENT_ERROR };

	snprintf(ev.error, sizeof ev.error, "bad_stream");
	snprintf(ev.message, sizeof ev.message, "%s", message);
	qengine_send_event(c, &ev);
	c->eof = c->broken = 1;
	if (c->is_pipe)
		warn("stdin: %s", message);
	else if (cli_verbose)
		cli_note("a client: %s", message);
}

/*
 * Determine the form of the requests by their first byte: 0, or -1 after an
 * error.
 */
static int
set_form(struct qengine_client *c)
{
	const unsigned char *p = c->inbox.buf + c->inbox.start;
	size_t n = c->inbox.end - c->inbox.start;
	const char *what;
	char why[128];

	/* any map of CBOR; other maps than ours fail later */
	if (*p >= 0xa0 && *p <= 0xbf)
		c->form = QENGINE_CBOR;
	else if (*p == '{' || *p == '\n' || *p == ' ' || *p == '\t')
		c->form = QENGINE_JSON;
	else {
		/* report the error as JSON, which people can read */
		c->form = QENGINE_JSON;
		what = tool_not_text(p, n, 0);
		snprintf(why, sizeof why, "this is %s, not requests",
		    what != NULL ? what : "text");
		refuse_input(c, why);
		return -1;
	}
	return 0;
}

static void
handle_line(struct qengine_client *c, const unsigned char *p, size_t n)
{
	struct qwen_text record = { 0 };
	char id[QWEN_ENGINE_ID + 1];
	struct qwen_err err;
	size_t i;

	for (i = 0; i < n && strchr(" \t\r", p[i]) != NULL && p[i] != 0; i++)
		;
	if (i == n)
		return;
	if (qengine_from_json(&record, p, n, id, &err) < 0)
		qengine_refuse(c, id, 0, "invalid_request", err.msg);
	else
		qengine_handle_record(c, (const unsigned char *)record.s,
		    record.n);
	qwen_text_fini(&record);
}

/* Handle a last line without a line feed. */
static void
handle_last_line(struct qengine_client *c)
{
	struct qwen_inbox *in = &c->inbox;

	if (in->start == in->end || c->broken)
		return;
	if (c->form == QENGINE_JSON)
		handle_line(c, in->buf + in->start, in->end - in->start);
	else
		refuse_input(c, "the requests end inside a record");
	qwen_inbox_fini(in);
}

int
qengine_client_waits(const struct qengine_client *c)
{
	return c->is_pipe && (qengine_is_full(c->engine) ||
	    qengine_unread(c) > c->engine->max_unread);
}

/* Return the limit of a request's bytes, with the rows of a full context. */
static size_t
longest(const struct qengine *e)
{
	const struct qwen_model *m = e->work.model;
	uint64_t n = QWEN_ENGINE_MAX + (uint64_t)qwen_model_n_ctx(m) *
	    qwen_model_n_row(m) * sizeof(float);

	return n < SIZE_MAX / 4 ? (size_t)n : SIZE_MAX / 4;
}

void
qengine_client_handle(struct qengine_client *c)
{
	const unsigned char *p;
	struct qwen_err err;
	size_t n;
	int got = 0;

	if (c->broken || c->gone_errno || (c->form == QENGINE_UNKNOWN &&
	    (c->inbox.start == c->inbox.end || set_form(c) < 0)))
		return;
	/* a pipe waits where a socket's request would be refused */
	while (!c->gone_errno && !c->broken && !qengine_client_waits(c)) {
		got = (c->form == QENGINE_JSON ? qwen_inbox_line :
		    qwen_inbox_next)(&c->inbox, longest(c->engine), &p, &n,
		    &err);
		if (got <= 0)
			break;
		if (c->form == QENGINE_JSON)
			handle_line(c, p, n);
		else
			qengine_handle_record(c, p, n);
		got = 0;
	}
	c->is_blocked = qengine_client_waits(c);
	if (got < 0)
		refuse_input(c, err.msg);
	else if (c->eof && !c->is_blocked)
		handle_last_line(c);
}

int
qengine_client_has_more(const struct qengine_client *c)
{
	struct pollfd p = { .fd = c->in, .events = POLLIN };

	return c->is_pipe && !c->eof && !c->broken && !c->gone_errno &&
	    !c->is_blocked && c->inbox.end - c->inbox.start >= PIPE_FULL &&
	    poll(&p, 1, WAIT_MS) == 1 && (p.revents & POLLIN) != 0;
}

void
qengine_client_read(struct qengine_client *c)
{
	size_t room, all = 0;
	unsigned char *p;
	ssize_t n;

	/* a pipe only once, since the second read could block */
	while (all < READ_MAX && !c->eof) {
		if ((p = qwen_inbox_reserve(&c->inbox, &room)) == NULL) {
			refuse_input(c, "out of memory");
			return;
		}
		n = read(c->in, p, room);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno != EAGAIN && errno != EWOULDBLOCK) {
			refuse_input(c, strerror(errno));
			c->gone_errno = !c->is_pipe;
		}
		if (n == 0)
			c->eof = 1;
		if (n <= 0)
			return;
		qwen_inbox_added(&c->inbox, (size_t)n);
		all += (size_t)n;
		if (c->is_pipe)
			return;
	}
}
