/* SPDX-License-Identifier: ISC */
/*
 * job.c - jobs: which engine gets them, which job an event belongs to, and what
 * happens when a client or an engine is gone.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "qserve.h"

enum {
	SENT_MAX = 2,		/* a job that was lost with this many engines is
				   not sent to another */
	REST_MAX = 4096,	/* bytes of a request without its arrays and
				   texts */
};

/* ------------------------------------------------------------------- slots */

/*
 * Create job i of a call, or without a call, and without an engine.  It has a
 * slot, by which events find it.  NULL without memory.
 */
static struct qserve_job *
new_job(struct qserve *s, struct qserve_call *c, size_t at, int is_question)
{
	struct qserve_job *j = calloc(1, sizeof *j);
	size_t i;

	for (i = 0; i < s->n_slots && s->slot[i] != NULL; i++)
		;
	if (j == NULL || (i == s->n_slots && qwen_grow(&s->slot, &s->cap_slots,
	    i + 1, sizeof *s->slot) < 0)) {
		free(j);
		return NULL;
	}
	s->n_slots += i == s->n_slots;
	j->is_question = is_question;
	s->slot[i] = j;
	s->n_jobs += !j->is_question;
	j->slot = i;
	snprintf(j->id, sizeof j->id, "%zu.%llu", i, cli_llu(++s->n_made));
	if (c == NULL)
		return j;
	c->jobs[at] = j;
	j->call = c;
	j->i = at;
	c->n_left++;
	return j;
}

static void
free_job(struct qserve *s, struct qserve_job *j)
{
	s->slot[j->slot] = NULL;
	s->n_jobs -= !j->is_question;
	free(j);
}

static struct qserve_job *
find_job(const struct qserve_engine *e, const char *id)
{
	const struct qserve *s = e->server;
	unsigned long long i = strtoull(id, NULL, 10);
	struct qserve_job *j = i < s->n_slots ? s->slot[i] : NULL;

	return j != NULL && j->engine == e && strcmp(j->id, id) == 0 ? j : NULL;
}

/* ------------------------------------------------------------------- lists */

/* Return a job from an engine to the front of the queue. */
static void
requeue_job(struct qserve *s, struct qserve_job *j)
{
	j->engine = NULL;
	j->next = s->waiting;
	s->waiting = j;
}

static void
unlink_job(struct qserve_job **list, const struct qserve_job *j)
{
	while (*list != j)
		list = &(*list)->next;
	*list = j->next;
}

/* Separate the job from its call. */
static void
detach(struct qserve_job *j)
{
	if (j->call == NULL)
		return;
	j->call->jobs[j->i] = NULL;
	j->call->n_left--;
	j->call = NULL;
}

/* ----------------------------------------------------------------- sending */

/* Return 1 if the engine owes an answer for longer than a pass takes. */
static int
is_late(const struct qserve_engine *e)
{
	return qserve_engine_unanswered_s(e, cli_now()) > QSERVE_PASS_S;
}

/*
 * Return the ready engine with the fewest jobs relative to its sequences, or
 * NULL.  An engine that is late with an answer is chosen only if all are.
 */
static struct qserve_engine *
idlest(const struct qserve *s)
{
	struct qserve_engine *e, *best = NULL;

	for (e = s->engines; e != NULL; e = e->next) {
		if (!e->ready)
			continue;
		if (best == NULL || is_late(best) > is_late(e) ||
		    (is_late(best) == is_late(e) &&
		    e->n_jobs * best->hello.n_sequences <
		    best->n_jobs * e->hello.n_sequences))
			best = e;
	}
	return best;
}

/* Send a job to an engine: 0, or -1 without memory. */
static int
send_job(struct qserve_engine *e, struct qserve_job *j)
{
	struct qwen_engine_request o;
	double left;

	memset(&o, 0, sizeof o);
	if (j->call == NULL)
		o.kind = QWEN_ENGINE_STATS;
	else if (j->call->handler->make_request(j->call, j->i, &o) < 0)
		return -1;
	if (!j->is_question && j->call->deadline > 0) {
		left = (j->call->deadline - cli_now()) * 1e3;
		o.deadline_ms = left < 1 ? 1 : (uint64_t)left;
	}
	/* older engines would refuse it */
	o.progress = o.progress && e->hello.tells_progress;
	snprintf(o.id, sizeof o.id, "%s", j->id);
	if (qserve_engine_send(e, &o) < 0)
		return -1;
	if (j->is_question) {
		j->asked_at = cli_now();
		e->asked_at = e->asked_at > 0 ? e->asked_at : j->asked_at;
	}
	j->engine = e;
	j->n_sent++;
	/* its silence counts from now on, since it was idle */
	if (e->jobs == NULL)
		e->heard_at = cli_now();
	j->next = e->jobs;
	e->jobs = j;
	e->n_jobs++;
	return 0;
}

/* ------------------------------------------------------------------ making */

size_t
qserve_n_sequences(const struct qserve *s)
{
	const struct qserve_engine *e;
	size_t n = 0;

	for (e = s->engines; e != NULL; e = e->next)
		n += e->ready ? (size_t)e->hello.n_sequences : 0;
	return n;
}

static int
make_room(struct qserve_call *c, size_t n, const struct qserve_handler *handler)
{
	c->handler = handler;
	c->jobs = calloc(n, sizeof(struct qserve_job *));
	c->n_jobs = c->jobs != NULL ? n : 0;
	c->n_left = 0;
	return c->jobs != NULL ? 0 : -1;
}

/* Cancel the call's jobs and report that memory is out. */
static void
fail_for_memory(struct qserve_call *c)
{
	qserve_jobs_cancel(c);
	c->handler->fail(c, "out_of_memory", "out of memory");
}

void
qserve_jobs_make(struct qserve_call *c, size_t n,
    const struct qserve_handler *handler)
{
	struct qserve_job **at = &c->server->waiting;
	size_t i = 0;

	while (*at != NULL)
		at = &(*at)->next;
	if (make_room(c, n, handler) == 0) {
		for (; i < n && (*at = new_job(c->server, c, i, 0)) != NULL;
		    i++)
			at = &(*at)->next;
	}
	if (i < n)
		fail_for_memory(c);
}

/*
 * Check that engines accept the call's requests: prompts fit into the context,
 * and no request exceeds QWEN_ENGINE_MAX bytes, since an engine disconnects
 * then, and all its other jobs end.  If not, answers the call and returns 0.
 */
static int
can_be_sent(struct qserve_call *c, size_t n,
    const struct qserve_handler *handler)
{
	size_t n_ctx = (size_t)qserve_n_ctx(c->server);
	struct qwen_refusal refusal = { .code = NULL };
	struct qwen_engine_request o;
	size_t i, bytes;

	for (i = 0; i < n; i++) {
		memset(&o, 0, sizeof o);
		if (handler->make_request(c, i, &o) < 0) {
			handler->fail(c, "out_of_memory", "out of memory");
			return 0;
		}
		if (n_ctx > 0 && o.n > n_ctx) {
			qwen_refuse_length(&refusal, NULL, o.n, 0, n_ctx);
			handler->fail(c, refusal.code, refusal.err.msg);
			return 0;
		}
		bytes = o.n_grammar + (o.sampling != NULL ?
		    strlen(o.sampling) : 0) + sizeof *o.tokens * (o.n +
		    o.n_ending + o.n_logits + o.n_mask + 2 * o.n_bias);
		if (bytes <= QWEN_ENGINE_MAX - REST_MAX)
			continue;
		qserve_error(c, 400, "invalid_request", "prompt and grammar "
		    "are more than an engine takes, %d bytes", QWEN_ENGINE_MAX);
		return 0;
	}
	return 1;
}

int
qserve_jobs_new(struct qserve_call *c, size_t n,
    const struct qserve_handler *handler)
{
	struct qserve *s = c->server;

	if (!can_be_sent(c, n, handler))
		return -1;
	/* a single call may exceed the queue */
	if (s->n_jobs > 0 && s->n_jobs + n > qserve_n_sequences(s) +
	    s->max_waiting) {
		qserve_error(c, 429, "queue_full", "the server is busy: %zu "
		    "requests are in progress", s->n_jobs);
		return -1;
	}
	if (s->timeout_s > 0)
		c->deadline = c->since + s->timeout_s;
	if (!qserve_choose_engine(c, n, handler))
		qserve_images_jobs(c, 0, n, handler);
	return 0;
}

size_t
qserve_ask_all(struct qserve_call *c, const struct qserve_handler *handler,
    double timeout_s)
{
	struct qserve_engine *e;
	struct qserve_job *j;
	size_t i = 0;

	if (make_room(c, c->server->n_engines, handler) < 0)
		return 0;
	c->asks_until = cli_now() + timeout_s;
	for (e = c->server->engines; e != NULL; e = e->next, i++) {
		if (!e->ready || is_late(e) || (j = new_job(c->server, c, i,
		    1)) == NULL || send_job(e, j) == 0)
			continue;
		detach(j);
		free_job(c->server, j);
	}
	if (c->n_left == 0)
		qserve_jobs_cancel(c);
	return c->n_left;
}

void
qserve_engine_probe(struct qserve_engine *e)
{
	struct qserve_job *j;

	if (e->ready && e->asked_at <= 0 &&
	    (j = new_job(e->server, NULL, 0, 1)) != NULL && send_job(e, j) < 0)
		free_job(e->server, j);
}

void
qserve_job_cancel(struct qserve_job *j)
{
	struct qwen_engine_request o = { .kind = QWEN_ENGINE_CANCEL };
	struct qserve *s = j->call->server;
	struct qserve_engine *e;

	detach(j);
	if (j->engine == NULL) {
		unlink_job(&s->waiting, j);
		free_job(s, j);
		return;
	}
	/* the answer comes after the current pass; nothing to cancel */
	if (j->is_question)
		return;
	for (e = s->engines; e != j->engine; e = e->next)
		;
	snprintf(o.id, sizeof o.id, "%s", j->id);
	qserve_engine_send(e, &o);
}

void
qserve_jobs_cancel(struct qserve_call *c)
{
	size_t i;

	for (i = 0; i < c->n_jobs; i++) {
		if (c->jobs[i] != NULL)
			qserve_job_cancel(c->jobs[i]);
	}
	free(c->jobs);
	c->jobs = NULL;
	c->n_jobs = 0;
	c->asks_until = 0;
}

/* Return 1 if the server is ending and no engine runs any more. */
static int
has_no_engine(const struct qserve *s)
{
	const struct qserve_engine *e;

	for (e = s->engines; e != NULL && e->pid == 0; e = e->next)
		;
	return s->draining && e == NULL;
}

void
qserve_jobs_send(struct qserve *s)
{
	struct qserve_engine *e;
	struct qserve_call *c;
	struct qserve_job *j;

	while (s->waiting != NULL && has_no_engine(s)) {
		c = s->waiting->call;
		qserve_jobs_cancel(c);
		c->handler->fail(c, "unavailable",
		    "the server is shutting down");
	}
	while ((j = s->waiting) != NULL && (e = idlest(s)) != NULL) {
		s->waiting = j->next;
		c = j->call;
		if (c->preferred != NULL && c->preferred->ready)
			e = c->preferred;
		if (send_job(e, j) == 0)
			continue;
		detach(j);
		free_job(s, j);
		fail_for_memory(c);
	}
}

/* ------------------------------------------------------------------ events */

static void
remove_job(struct qserve_engine *e, struct qserve_job *j)
{
	const struct qserve_job *x;

	unlink_job(&e->jobs, j);
	e->n_jobs--;
	if (!j->is_question)
		return;
	e->asked_at = 0;
	for (x = e->jobs; x != NULL; x = x->next) {
		if (x->is_question && (e->asked_at <= 0 || x->asked_at <
		    e->asked_at))
			e->asked_at = x->asked_at;
	}
}

int
qserve_engine_forgot(const struct qserve_engine *e,
    const struct qwen_event *ev)
{
	const struct qserve_job *j = find_job(e, ev->id);

	if (j == NULL || !j->is_question || ev->kind != QWEN_EVENT_STATS ||
	    ev->stat[QWEN_STAT_RUNNING] > 0 || ev->stat[QWEN_STAT_WAITING] > 0)
		return 0;
	/* newer jobs are first in the list: find an older request */
	while ((j = j->next) != NULL && j->is_question)
		;
	return j != NULL;
}

void
qserve_job_event(struct qserve_engine *e, const struct qwen_event *ev)
{
	struct qserve_job *j = find_job(e, ev->id);
	struct qserve_call *c = j != NULL ? j->call : NULL;
	int again;
	size_t i;

	if (j == NULL)
		return;
	i = j->i;
	again = ev->kind == QWEN_EVENT_STARTED && j->started;
	j->started |= ev->kind == QWEN_EVENT_STARTED;
	j->has_result |= ev->kind != QWEN_EVENT_STARTED &&
	    ev->kind != QWEN_EVENT_PROGRESS;
	/* the engine is about to exit: its jobs are lost as if it had ended */
	if (c != NULL && !j->is_question && ev->kind == QWEN_EVENT_END &&
	    strcmp(ev->why, "refused") == 0 &&
	    strcmp(ev->error, "draining") == 0) {
		remove_job(e, j);
		requeue_job(e->server, j);
		return;
	}
	e->computed |= !j->is_question && ev->kind != QWEN_EVENT_STARTED &&
	    ev->kind != QWEN_EVENT_END;
	if (ev->kind == QWEN_EVENT_END || j->is_question) {
		detach(j);
		remove_job(e, j);
		free_job(e->server, j);
	}
	/* a restarted job was reported as started before */
	if (c != NULL && !again)
		c->handler->event(c, i, ev);
}

/*
 * A part of the answer is lost with an engine.  Restart the call once, if its
 * client has seen nothing of it; else let it fail.
 */
static void
restart_call(struct qserve_call *c)
{
	qserve_jobs_cancel(c);
	if (c->queued || c->restarted) {
		c->handler->fail(c, "unavailable", "the engine that worked on "
		    "this request ended");
		return;
	}
	c->restarted = 1;
	qserve_call_restart(c);
}

/* Give the call an end event in place of an answer. */
static void
end_question(struct qserve_job *j)
{
	struct qwen_event ev = { .kind = QWEN_EVENT_END };
	struct qserve_call *c = j->call;

	detach(j);
	c->handler->event(c, j->i, &ev);
}

void
qserve_questions_end(struct qserve *s, double now)
{
	struct qserve_call *c;
	size_t i, n;

	for (c = s->calls; c != NULL; c = c->next) {
		n = c->asks_until > 0 && now >= c->asks_until ? c->n_left : 0;
		/* after the last question, the call may have other jobs */
		for (i = 0; n > 0; i++) {
			if (c->jobs[i] == NULL)
				continue;
			n--;
			end_question(c->jobs[i]);
		}
	}
}

void
qserve_jobs_lost(struct qserve_engine *e)
{
	struct qserve_job *j;

	while ((j = e->jobs) != NULL) {
		if (j->call != NULL && j->is_question)
			end_question(j);
		else if (j->call != NULL && (j->has_result ||
		    j->n_sent >= SENT_MAX))
			restart_call(j->call);
		remove_job(e, j);
		if (j->call != NULL)
			requeue_job(e->server, j);
		else
			free_job(e->server, j);
	}
}
