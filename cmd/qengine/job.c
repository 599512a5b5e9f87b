/* SPDX-License-Identifier: ISC */
/* job.c - turn requests into jobs, and their results into events. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "qengine.h"

/* ------------------------------------------------------------------ events */

/* Return an event of the job's request: all zero except kind and id. */
static struct qwen_event
event_of(const struct qengine_job *j, enum qwen_event_kind kind)
{
	struct qwen_event ev;

	memset(&ev, 0, sizeof ev);
	ev.kind = kind;
	memcpy(ev.id, j->request.id, sizeof ev.id);
	return ev;
}

static void
set_error(struct qwen_event *ev, const char *code, const char *message)
{
	snprintf(ev->error, sizeof ev->error, "%s", code);
	snprintf(ev->message, sizeof ev->message, "%s", message);
}

static struct qengine_job *
find_job(const struct qengine_client *c, const char *id)
{
	struct qengine_job *j;

	for (j = c->jobs; j != NULL && strcmp(j->request.id, id) != 0;
	    j = j->next)
		;
	return j;
}

void
qengine_refuse(struct qengine_client *c, const char *id, size_t n,
    const char *code, const char *message)
{
	/* for an id in use: its end event comes later */
	struct qwen_event ev = { .kind = id[0] == '\0' ||
	    find_job(c, id) != NULL ? QWEN_EVENT_ERROR : QWEN_EVENT_END };

	snprintf(ev.id, sizeof ev.id, "%s", id);
	snprintf(ev.why, sizeof ev.why, "refused");
	ev.n_prompt = n;
	set_error(&ev, code, message);
	qengine_send_event(c, &ev);
}

static void
set_top(struct qwen_event *ev, const struct qwen_sample_top *top, size_t n)
{
	size_t i;

	for (i = 0; i < n && i < QWEN_ENGINE_TOP; i++) {
		ev->top_ids[i] = top[i].id;
		ev->top_logprobs[i] = top[i].logprob;
	}
	ev->n_top = i;
}

static void
on_begun(void *arg, size_t n_cached)
{
	struct qengine_job *j = arg;
	struct qwen_event ev = event_of(j, QWEN_EVENT_STARTED);

	ev.n_prompt = j->n_prompt;
	ev.n_cached = j->n_cached = n_cached;
	qengine_send_event(j->client, &ev);
	/* now, since the first pass may take long */
	if (!j->client->gone_errno)
		qengine_client_write(j->client);
}

/* Queue a progress event; it is written before the next pass. */
static void
on_read(void *arg, size_t n_read)
{
	struct qengine_job *j = arg;
	struct qwen_event ev = event_of(j, QWEN_EVENT_PROGRESS);

	ev.n_prompt = j->n_prompt;
	ev.n_read = n_read;
	qengine_send_event(j->client, &ev);
}

static int
on_token(void *arg, const struct qwen_choice *choice)
{
	struct qengine_job *j = arg;
	struct qwen_event ev = event_of(j, QWEN_EVENT_TOKEN);

	j->n_tokens++;
	ev.token = choice->id;
	if (j->request.logprobs) {
		ev.has_logprob = 1;
		ev.logprob = choice->logprob;
		set_top(&ev, choice->top, choice->n_top);
	}
	qengine_send_event(j->client, &ev);
	return 0;
}

static void
on_score(void *arg, const struct qwen_score *s)
{
	struct qengine_job *j = arg;
	struct qwen_event ev = event_of(j, QWEN_EVENT_SCORE);

	ev.at = s->at;
	ev.logprob = s->logprob;
	ev.rank = s->rank;
	set_top(&ev, s->top, s->n_top);
	qengine_send_event(j->client, &ev);
}

static void
on_hidden(void *arg, size_t at, const float *x)
{
	struct qengine_job *j = arg;
	struct qwen_event ev = event_of(j, QWEN_EVENT_HIDDEN);
	const struct qwen_engine_request *o = &j->request;
	const struct qwen_model *m = j->client->engine->work.model;

	ev.at = at;
	ev.n_row = o->logits == NULL ? qwen_model_n_embd(m) :
	    o->n_logits > 0 ? o->n_logits : qwen_model_n_classes(m);
	ev.row = cli_check_alloc(malloc(ev.n_row * sizeof *ev.row));
	if (o->logits == NULL)
		memcpy(ev.row, x, ev.n_row * sizeof *ev.row);
	else if (o->n_logits > 0)
		cli_must(NULL, qwen_model_logits(m, x, o->logits,
		    o->n_logits, ev.row, &cli_err));
	else
		cli_must(NULL, qwen_model_classify(m, x, ev.row, &cli_err));
	qengine_send_event(j->client, &ev);
	qwen_event_fini(&ev);
}

static const char *
why_ended(const struct qengine_job *j, enum qwen_job_end why)
{
	switch (why) {
	case QWEN_JOB_ENDING:
		return "ending";
	case QWEN_JOB_REPEATS:
		return "repeats";
	case QWEN_JOB_FAILED:
		return "failed";
	case QWEN_JOB_CANCELLED:
		return j->is_late ? "deadline" : "cancelled";
	default:
		return j->request.kind == QWEN_ENGINE_GENERATE ? "length" :
		    "done";
	}
}

static void
free_job(struct qengine_job *j)
{
	qwen_grammar_unshare(j->grammar);
	qwen_engine_request_fini(&j->request);
	free(j);
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	struct qengine_job *j = arg, **at = &j->client->jobs;
	struct qwen_event ev = event_of(j, QWEN_EVENT_END);

	snprintf(ev.why, sizeof ev.why, "%s", why_ended(j, why));
	ev.n_prompt = j->n_prompt;
	ev.n_cached = j->n_cached;
	ev.n_tokens = j->n_tokens;
	/* ERANGE: the job exceeds a limit of its grammar */
	if (err != NULL)
		set_error(&ev, err->code == QWEN_EFULL ? "out_of_memory" :
		    err->code == QWEN_ERANGE ? "invalid_request" :
		    err->code == QWEN_EMISMATCH ? "missing_rows" : "failed",
		    err->msg);
	qengine_send_event(j->client, &ev);
	j->client->engine->may_store = 1;
	while (*at != j)
		at = &(*at)->next;
	*at = j->next;
	free_job(j);
}

/* ---------------------------------------------------------------- sampling */

static int
set_sampler(struct qengine *e, struct qengine_job *j, struct qwen_sampler *s,
    struct qwen_err *err)
{
	const struct qwen_engine_request *o = &j->request;
	struct qwen_constraint c;

	if ((o->sampling != NULL && qwen_sampler_read(s, o->sampling,
	    err) < 0) || qwen_sampler_check(s, err) < 0)
		return qwen_fail_in(err, "sampling");
	if (qwen_sampler_cpu(s, tool_cpu(), err) < 0 ||
	    qwen_sampler_eog(s, e->header.eog, e->header.n_eog, err) < 0 ||
	    qwen_sampler_mask(s, o->mask, o->n_mask, err) < 0)
		return -1;
	qwen_sampler_bias(s, o->bias_ids, o->bias, o->n_bias);
	if (o->grammar != NULL) {
		if (qwen_grammar_share(&e->grammars, o->grammar, o->n_grammar,
		    0, &j->grammar, &c, err) < 0)
			return qwen_fail_in(err, "grammar");
		qwen_sampler_constrain(s, c);
	}
	if (!qwen_sampler_needs_pieces(s))
		return 0;
	if (qwen_grammars_prepare(&e->grammars, err) < 0)
		return -1;
	qwen_sampler_pieces(s, e->grammars.pieces);
	return 0;
}

/* Make the job's sampler in *out; NULL for greedy sampling. */
static int
make_sampler(struct qengine *e, struct qengine_job *j,
    struct qwen_sampler **out, struct qwen_err *err)
{
	struct qwen_sampler *s;

	*out = NULL;
	if (j->request.kind != QWEN_ENGINE_GENERATE)
		return 0;
	if (qwen_sampler_new(&s, err) < 0)
		return -1;
	if (set_sampler(e, j, s, err) < 0) {
		qwen_sampler_free(s);
		return -1;
	}
	if (qwen_sampler_is_greedy(s)) {
		qwen_sampler_free(s);
		return 0;
	}
	*out = s;
	return 0;
}

/* ---------------------------------------------------------------- requests */

int
qengine_is_full(const struct qengine *e)
{
	return qwen_work_n_waiting(e->work.work) >= e->max_waiting;
}

/* Gives each of the last spans its part of the request's rows. */
static int
share_rows(const struct qengine *e, struct qwen_engine_request *o,
    struct qwen_err *err)
{
	size_t i, n_row = qwen_model_n_row(e->work.model), left = o->n_rows;

	for (i = o->n_spans; i > 0 && left > 0 && o->spans[i - 1].span.n <=
	    left / n_row; i--) {
		left -= (size_t)o->spans[i - 1].span.n * n_row;
		o->spans[i - 1].rows = o->rows + left;
	}
	return left == 0 ? 0 : qwen_fail(err, QWEN_ERANGE, "rows: %zu numbers "
	    "are not those of the last spans' rows", o->n_rows);
}

static int
add_job(struct qengine *e, struct qengine_job *j, struct qwen_err *err)
{
	struct qwen_engine_request *o = &j->request;
	struct qwen_job job = {
		.tokens = o->tokens, .n = o->n, .from = (size_t)o->from,
		.max = o->max < SIZE_MAX ? (size_t)o->max : SIZE_MAX,
		.ending = o->ending != NULL ? o->ending : e->header.eog,
		.n_ending = o->ending != NULL ? o->n_ending : e->header.n_eog,
		.logprobs = o->logprobs, .n_top = o->n_top,
		.priority = o->priority, .keep = o->keep,
		.n_keep = o->n_keep, .begun = on_begun, .token = on_token,
		.score = o->kind == QWEN_ENGINE_SCORE ? on_score : NULL,
		.hidden = o->kind == QWEN_ENGINE_HIDDEN ? on_hidden : NULL,
		.read = o->progress ? on_read : NULL,
		.end = on_end, .arg = j,
		.spans = o->spans, .n_spans = o->n_spans,
	};

	if (o->logits != NULL && o->n_logits == 0 &&
	    qwen_model_n_classes(e->work.model) == 0)
		return qwen_fail(err, QWEN_EUNSUP, "logits: the model has no "
		    "classes");
	if (share_rows(e, o, err) < 0 ||
	    make_sampler(e, j, &job.sampler, err) < 0)
		return -1;
	if (qwen_work_add(e->work.work, &job, err) == 0)
		return 0;
	qwen_sampler_free(job.sampler);
	return -1;
}

/* If the request cannot be accepted, send the reason and return 1. */
static int
is_refused(struct qengine_client *c, const struct qwen_engine_request *o)
{
	if (find_job(c, o->id) != NULL)
		qengine_refuse(c, o->id, o->n, "duplicate_id",
		    "a request with this id is in progress");
	else if (c->engine->draining)
		qengine_refuse(c, o->id, o->n, "draining",
		    "the engine is shutting down");
	else if (qengine_is_full(c->engine))
		qengine_refuse(c, o->id, o->n, "busy", "the queue is full");
	else
		return 0;
	return 1;
}

/* Start a job from a request, whose memory moves to the job. */
static void
start_job(struct qengine_client *c, struct qwen_engine_request *o)
{
	struct qengine_job *j;
	struct qwen_err err;

	if (is_refused(c, o))
		return;
	j = cli_check_alloc(calloc(1, sizeof *j));
	j->client = c;
	j->request = *o;
	memset(o, 0, sizeof *o);
	j->n_prompt = j->request.n;
	if (j->request.deadline_ms > 0)
		j->deadline = cli_now() + (double)j->request.deadline_ms / 1e3;
	if (add_job(c->engine, j, &err) < 0) {
		qengine_refuse(c, j->request.id, j->n_prompt, err.code ==
		    QWEN_EFULL || err.code == QWEN_ENOMEM ? "out_of_memory" :
		    "invalid_request", err.msg);
		free_job(j);
		return;
	}
	/* the scheduler copied them */
	free(j->request.tokens);
	j->request.tokens = NULL;
	j->next = c->jobs;
	c->jobs = j;
	c->engine->n_requests++;
}

static void
send_hello(struct qengine_client *c)
{
	const struct qengine *e = c->engine;
	const struct qwen_header *h = &e->header;
	struct qwen_event ev = { .kind = QWEN_EVENT_HELLO, .hello = {
		.n_vocab = h->n_vocab, .vocab = h->vocab, .model = h->model,
		.numerics = h->numerics, .k = h->k, .v = h->v,
		.rope = h->rope, .n_eog = h->n_eog, .tells_progress = 1,
		.n_ctx = qwen_model_n_ctx(e->work.model),
		.n_embd = qwen_model_n_embd(e->work.model),
		.n_sequences = e->work.n_sequences } };

	memcpy(ev.hello.eog, h->eog, sizeof h->eog);
	qengine_send_event(c, &ev);
}

/* Answer the client's header; a client of another model is refused. */
static void
greet(struct qengine_client *c, const struct qwen_hello *h)
{
	const struct qwen_header *own = &c->engine->header;

	c->greeted = 1;
	send_hello(c);
	if ((!h->has_vocab || memcmp(&h->vocab, &own->vocab,
	    sizeof own->vocab) == 0) && (!h->has_model ||
	    memcmp(&h->model, &own->model, sizeof own->model) == 0))
		return;
	qengine_refuse(c, "", 0, "mismatch",
	    "the requests are for another model");
	c->eof = c->broken = 1;
}

static void
send_cached(struct qengine_client *c, const struct qwen_engine_request *o)
{
	struct qwen_event ev = { .kind = QWEN_EVENT_CACHED,
	    .n_prompt = o->n };
	size_t kept, stored;
	struct qwen_err err;

	snprintf(ev.id, sizeof ev.id, "%s", o->id);
	if (qwen_work_cached(c->engine->work.work, o->tokens, o->n, &kept,
	    &stored, &err) < 0)
		kept = stored = 0;
	ev.n_cached = kept;
	ev.n_stored = stored;
	qengine_send_event(c, &ev);
}

static void
send_stats(struct qengine_client *c, const struct qwen_engine_request *o)
{
	const struct qengine *e = c->engine;
	struct qwen_event ev = { .kind = QWEN_EVENT_STATS };
	struct qwen_work_stats st;
	struct qwen_cache_usage u;

	snprintf(ev.id, sizeof ev.id, "%s", o->id);
	qwen_work_stats(e->work.work, &st);
	qwen_cache_usage(e->work.cache, &u);
	ev.stat[QWEN_STAT_WAITING] = qwen_work_n_waiting(e->work.work);
	ev.stat[QWEN_STAT_RUNNING] = qwen_work_n_jobs(e->work.work) -
	    ev.stat[QWEN_STAT_WAITING];
	ev.stat[QWEN_STAT_CLIENTS] = e->n_clients;
	ev.stat[QWEN_STAT_REQUESTS] = e->n_requests;
	ev.stat[QWEN_STAT_CANCELLED] = st.cancelled;
	ev.stat[QWEN_STAT_READ] = st.read;
	ev.stat[QWEN_STAT_SHARED] = st.shared;
	ev.stat[QWEN_STAT_STORED] = st.stored;
	ev.stat[QWEN_STAT_CHOSEN] = st.chosen;
	ev.stat[QWEN_STAT_SCORED] = st.scored;
	ev.stat[QWEN_STAT_PASSES] = st.n_passes;
	ev.stat[QWEN_STAT_PREEMPTED] = st.preempted;
	ev.stat[QWEN_STAT_KEPT] = st.n_kept;
	ev.stat[QWEN_STAT_BYTES] = u.used;
	ev.stat[QWEN_STAT_LIMIT] = u.limit;
	ev.stat[QWEN_STAT_DROPPED] = e->n_dropped;
	qengine_send_event(c, &ev);
}

static void
handle_request(struct qengine_client *c, struct qwen_engine_request *o)
{
	struct qengine_job *j;

	/*
	 * ids need a matching vocabulary, and programs, which write CBOR, can
	 * state it; people who write JSON need not
	 */
	if (!c->greeted && c->form == QENGINE_CBOR &&
	    o->kind != QWEN_ENGINE_HELLO) {
		qengine_refuse(c, "", 0, "bad_stream",
		    "the requests do not begin with a header");
		c->eof = c->broken = 1;
		return;
	}
	switch (o->kind) {
	case QWEN_ENGINE_HELLO:
		greet(c, &o->hello);
		break;
	case QWEN_ENGINE_CANCEL:
		/* no job: it has ended and its end event was sent */
		if ((j = find_job(c, o->id)) != NULL)
			qwen_work_cancel(c->engine->work.work, j);
		break;
	case QWEN_ENGINE_CACHED:
		send_cached(c, o);
		break;
	case QWEN_ENGINE_STATS:
		send_stats(c, o);
		break;
	default:
		start_job(c, o);
	}
}

void
qengine_handle_record(struct qengine_client *c, const unsigned char *p,
    size_t n)
{
	struct qwen_engine_request o;
	struct qwen_err err;

	if (qwen_engine_request_decode(&o, p, n, c->engine->header.n_vocab,
	    &err) == 0)
		handle_request(c, &o);
	else
		qengine_refuse(c, o.id, o.n, "invalid_request", err.msg);
	qwen_engine_request_fini(&o);
}

void
qengine_deadlines(struct qengine *e)
{
	struct qengine_client *c;
	struct qengine_job *j, *next;
	double now = cli_now();

	for (c = e->clients; c != NULL; c = c->next) {
		for (j = c->jobs; j != NULL; j = next) {
			next = j->next;
			if (j->deadline <= 0 || j->deadline > now)
				continue;
			j->is_late = 1;
			qwen_work_cancel(e->work.work, j);
		}
	}
}
