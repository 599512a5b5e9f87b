/* SPDX-License-Identifier: ISC */
/* answer.c - completions and chats: parse a request, generate its answers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "qserve.h"

enum { IDLE_S = 15 };	/* seconds of silence in a stream before a keep-alive
			   event */

/*
 * Tokens within this many seconds are sent together: writes are most of the
 * cost of a stream, and screens show no more pictures per second.
 */
#define GATHER_S 0.016

/* ----------------------------------------------------- requests to engines */

/*
 * Set *out to the sampler of answer i as text for an engine, or NULL for
 * greedy: 0, or -1 without memory.
 */
static int
describe(struct qserve_call *c, size_t i, char **out)
{
	struct qwen_sampler *s = tool_service_nth(c->sampler, i % c->q->n);
	struct qwen_text *t = &c->sampling;
	size_t n;

	*out = NULL;
	if (s == NULL)
		return 0;
	qwen_text_fini(t);
	n = qwen_sampler_describe(s, NULL, 0) + 1;
	if ((*out = t->s = malloc(n)) != NULL)
		qwen_sampler_describe(s, t->s, n);
	qwen_sampler_free(s);
	return *out != NULL ? 0 : -1;
}

static int
make_request(struct qserve_call *c, size_t i, struct qwen_engine_request *o)
{
	struct qwen_request *q = c->q;
	const struct qwen_ids *p = q->answer[i].prompt;

	o->kind = QWEN_ENGINE_GENERATE;
	o->tokens = p->id;
	o->n = p->n;
	memcpy(o->keep, c->prompt_info.keep, sizeof c->prompt_info.keep);
	o->n_keep = c->prompt_info.n_keep;
	o->progress = q->tells_progress && i == 0;
	/* an engine must generate one token; it is discarded */
	o->max = q->max > 0 ? q->max : 1;
	o->logprobs = q->logprobs;
	o->n_top = q->n_top;
	o->grammar = c->grammar;
	o->n_grammar = c->n_grammar;
	o->bias_ids = q->bias_id;
	o->bias = q->bias;
	o->n_bias = q->n_bias;
	o->ending = q->end_id;
	o->n_ending = q->end_id != NULL ? q->n_end_ids : 0;
	return describe(c, i, &o->sampling);
}

/* ------------------------------------------------------------------ answers */

/* Answer with the complete body. */
static void
put_body(struct qserve_call *c)
{
	qwen_request_body(c->q, c->created, &c->out);
	qserve_done(c, qwen_refusal_status(&c->q->refusal));
}

/* Send the events in out. */
static void
put_events(struct qserve_call *c)
{
	c->sent_at = cli_now();
	if (c->out.failed || c->out.n - c->at > c->server->max_unread)
		qserve_call_drop(c);
	else
		qserve_call_resume(c);
}

/* Add the new text of all answers to out. */
static void
put_steps(struct qserve_call *c)
{
	size_t i;

	for (i = 0; i < c->q->n_answers; i++)
		qwen_answer_stream_step(c->sse, &c->q->answer[i], &c->out);
	c->has_news = 0;
}

double
qserve_answer_flush_at(const struct qserve_call *c)
{
	return c->has_news && !c->client_left ? c->sent_at + GATHER_S : 0;
}

void
qserve_answer_flush(struct qserve_call *c, double now)
{
	double due = qserve_answer_flush_at(c);

	if (due <= 0 || now < due)
		return;
	put_steps(c);
	put_events(c);
}

/* Set how long the whole answer, its prompt, and the generation took. */
static void
note_times(struct qserve_call *c)
{
	double now = cli_now();
	double began = c->began_at > 0 ? c->began_at : c->since;
	double first = c->first_at > 0 ? c->first_at : now;

	c->q->times = (struct qwen_timings){ 1, now - c->since, first - began,
	    now - first };
}

/* End the answer, or answer with a refusal. */
static void
end_response(struct qserve_call *c)
{
	note_times(c);
	qserve_response_keep(c);
	if (!c->is_stream) {
		put_body(c);
		return;
	}
	qserve_jobs_cancel(c);
	put_steps(c);
	qwen_answer_stream_end(c->sse, &c->out);
	c->ended = 1;
	put_events(c);
}

void
qserve_answer_keep_alive(struct qserve_call *c, double now)
{
	if (!c->is_stream || c->ended || now < c->sent_at + IDLE_S)
		return;
	qwen_answer_stream_idle(c->sse, &c->out);
	put_events(c);
}

void
qserve_answer_fail(struct qserve_call *c, const char *code,
    const char *message)
{
	qwen_refuse(&c->q->refusal, code, NULL, "%s", message);
	end_response(c);
}

static void
fail_err(struct qserve_call *c, const struct qwen_err *err)
{
	qserve_answer_fail(c, err->code == QWEN_ENOMEM ? "out_of_memory" : "failed",
	    err->msg);
}

/* Begin the stream.  Later errors become events. */
static int
begin_stream(struct qserve_call *c)
{
	struct qwen_request *q = c->q;
	struct qwen_err err;

	if (!q->stream || c->is_stream)
		return 0;
	if (qwen_answer_stream_new(&c->sse, q, c->created, &err) < 0) {
		fail_err(c, &err);
		return -1;
	}
	c->is_stream = 1;
	c->status = 200;
	qwen_answer_stream_begin(c->sse, &c->out);
	/* the prompt, which precedes the first token */
	if (q->echo)
		put_steps(c);
	put_events(c);
	return c->client_left ? -1 : 0;
}

/*
 * Send the progress of the first prompt, if requested; all prompts begin with
 * the same tokens.
 */
static void
send_progress(struct qserve_call *c, size_t n_read)
{
	struct qwen_progress p = { c->q->answer[0].prompt->n, c->q->n_cached,
	    n_read, cli_now() - c->began_at };

	if (!c->q->tells_progress || !c->is_stream || c->client_left)
		return;
	qwen_answer_stream_progress(c->sse, &p, &c->out);
	put_events(c);
}

/*
 * Answer a request that is refused before an engine got it.  Codex recognises a
 * prompt that is too long only in the events of a stream, where OpenAI reports
 * it.
 */
static void
put_refusal(struct qserve_call *c)
{
	struct qwen_request *q = c->q;

	if (q->form != QWEN_FORM_RESPONSES || !q->stream ||
	    q->n_answers == 0 || strcmp(q->refusal.code, QWEN_TOO_LONG) != 0)
		put_body(c);
	else if (begin_stream(c) == 0)
		end_response(c);
}

static void
begin_answer(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	/* all answers to a prompt share it */
	if (i % c->q->n == 0) {
		c->q->n_cached += (size_t)ev->n_cached;
		c->n_prompt += c->q->answer[i].prompt->n;
	}
	if (c->began_at <= 0)
		c->began_at = cli_now();
	if (begin_stream(c) == 0 && i == 0)
		send_progress(c, (size_t)ev->n_cached);
}

/* Answer i has a new token: send it now, or together with the next ones. */
static void
send_token(struct qserve_call *c, int now)
{
	if (!c->is_stream)
		return;
	c->has_news = 1;
	if (now)
		qserve_answer_flush(c, INFINITY);
}

static void
end_answer(struct qserve_call *c, size_t i, const char *finish)
{
	struct qwen_err err;

	if (qwen_answer_end(&c->q->answer[i], finish, &err) < 0) {
		fail_err(c, &err);
		return;
	}
	if (c->n_left == 0 && !c->client_left)
		end_response(c);
	else
		send_token(c, 1);
}

static void
free_ids(struct qserve_call *c)
{
	size_t i;

	for (i = 0; c->ids != NULL && i < c->q->n_answers; i++)
		free(c->ids[i].id);
	free(c->ids);
	c->ids = NULL;
}

/* Record the id for the history; without memory, records nothing more. */
static void
note_id(struct qserve_call *c, size_t i, int32_t id)
{
	struct qserve_ids *all;

	if (c->ids == NULL)
		return;
	all = &c->ids[i];
	if (qwen_grow(&all->id, &all->cap, all->n + 1, sizeof *all->id) < 0)
		free_ids(c);
	else
		all->id[all->n++] = id;
}

/* Add the ids of answer i to the history, without an ending token. */
static void
add_to_history(struct qserve_call *c, size_t i, int is_ended)
{
	struct qserve_ids *all;

	if (c->ids == NULL)
		return;
	all = &c->ids[i];
	qserve_history_add(c->server->history, &c->prompt_info, all->id,
	    all->n - (size_t)(is_ended && all->n > 0));
}

/* For editors: return 1 if a second line comes too late to wait for it. */
static int
is_late(const struct qserve_call *c, size_t i)
{
	const struct qwen_text *t = &c->q->answer[i].text;

	return c->q->line_ms > 0 && t->n > 0 &&
	    (cli_now() - c->first_at) * 1e3 > (double)c->q->line_ms &&
	    memchr(t->s, '\n', t->n) != NULL;
}

static void
add_token(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct qwen_likely token = { ev->token, ev->logprob };
	struct qwen_likely top[QWEN_LOGPROBS_MAX];
	struct qwen_err err;
	size_t k;
	int rc, is_first = c->first_at <= 0;

	if (is_first)
		c->first_at = cli_now();
	if (c->q->max == 0)
		return;
	note_id(c, i, ev->token);
	for (k = 0; k < ev->n_top && k < QWEN_LOGPROBS_MAX; k++)
		top[k] = (struct qwen_likely){ ev->top_ids[k],
		    ev->top_logprobs[k] };
	rc = qwen_answer_put(&c->q->answer[i], &token, top, k, &err);
	if (rc < 0) {
		fail_err(c, &err);
	} else if (rc > 0 || is_late(c, i)) {
		qserve_job_cancel(c->jobs[i]);
		/* stopped after the only allowed call: ids and text agree */
		if (c->q->one_call && c->q->answer[i].n_calls > 0)
			add_to_history(c, i, 0);
		end_answer(c, i, rc > 0 ? "stop" : "length");
	} else
		send_token(c, is_first);
}

const char *
qserve_error_code(const struct qwen_event *ev)
{
	if (strcmp(ev->why, "deadline") == 0)
		return "deadline";
	if (strcmp(ev->error, "busy") == 0)
		return "queue_full";
	return strcmp(ev->error, "invalid_request") == 0 ? "invalid_request" :
	    strcmp(ev->error, "out_of_memory") == 0 ? "out_of_memory" :
	    "failed";
}

const char *
qserve_error_message(const struct qwen_event *ev)
{
	if (strcmp(ev->why, "deadline") == 0)
		return "the request timed out";
	return ev->message[0] != '\0' ? ev->message :
	    "the engine ended it early";
}

/* Handle the end event of answer i. */
void
qserve_answer_ended(struct qserve_call *c, size_t i,
    const struct qwen_event *ev)
{
	if (c->q->max == 0 && (strcmp(ev->why, "ending") == 0 ||
	    strcmp(ev->why, "length") == 0)) {
		end_answer(c, i, "length");
	} else if (strcmp(ev->why, "ending") == 0) {
		add_to_history(c, i, 1);
		end_answer(c, i, "stop");
	} else if (strcmp(ev->why, "repeats") == 0) {
		add_to_history(c, i, 0);
		c->q->answer[i].repeats = 1;
		end_answer(c, i, "length");
	} else if (strcmp(ev->why, "length") == 0) {
		add_to_history(c, i, 0);
		end_answer(c, i, "length");
	} else
		qserve_answer_fail(c, qserve_error_code(ev),
		    qserve_error_message(ev));
}

static void
on_event(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	if (ev->kind == QWEN_EVENT_STARTED)
		begin_answer(c, i, ev);
	else if (ev->kind == QWEN_EVENT_PROGRESS)
		send_progress(c, (size_t)ev->n_read);
	else if (ev->kind == QWEN_EVENT_TOKEN)
		add_token(c, i, ev);
	else if (ev->kind == QWEN_EVENT_END)
		qserve_answer_ended(c, i, ev);
}

static const struct qserve_handler handler = { make_request, on_event,
    qserve_answer_fail };

/* ----------------------------------------------------------------- requests */

static int
encode(void *arg, const struct qwen_prompt *p, struct qwen_ids *out,
    struct qwen_err *err)
{
	struct qserve_call *c = arg;

	free(c->prompt_info.turn);
	return qserve_history_encode(c->server->history, c->service.tok, p,
	    &c->prompt_info, out, err);
}

const struct qwen_service *
qserve_service(struct qserve_call *c)
{
	c->service = c->server->with.service;
	c->service.encode_prompt = encode;
	c->service.encode_arg = c;
	return &c->service;
}

void
qserve_answer_open(struct qserve *s)
{
	const struct qwen_service *v = &s->with.service;

	if (!s->retokenize)
		qserve_history_open(&s->history, s->store.dir, v->tok,
		    v->spell, &s->header.vocab);
}

void
qserve_answer(struct qserve_call *c)
{
	struct qserve *s = c->server;
	struct qwen_err err;

	if (qwen_request_parse(&c->q, qserve_service(c), c->form, c->body.s,
	    c->body.n, &err) < 0) {
		qserve_error(c, 500, "out_of_memory", "%s", err.msg);
		return;
	}
	tool_report_notes(&s->unknown);
	c->q->arg = c;
	c->q->number = c->number;
	c->q->has_cached = 1;	/* 0 tokens, if no engine is needed */
	c->created = (uint64_t)time(NULL);
	if (c->q->refusal.err.code != 0 || (s->with.service.n_ctx > 0 &&
	    qwen_request_fits(c->q, s->with.service.n_ctx) < 0) ||
	    tool_service_sampler(&s->with, c->q, &c->sampler) < 0) {
		put_refusal(c);
		return;
	}
	if (qwen_request_grammar(c->q, &c->grammar, &c->n_grammar, &err) < 0) {
		qserve_answer_fail(c, err.code == QWEN_ENOMEM ?
		    "out_of_memory" : "invalid_request", err.msg);
		return;
	}
	if (c->prompt_info.turn != NULL && s->history != NULL)
		c->ids = calloc(c->q->n_answers, sizeof *c->ids);
	if (c->q->echo)
		qserve_echo(c);
	else
		qserve_answer_generate(c);
}

void
qserve_answer_generate(struct qserve_call *c)
{
	struct qwen_err err;
	size_t i;

	if (c->q->n_answers > 0 && (c->q->max > 0 || !c->q->echo)) {
		qserve_jobs_new(c, c->q->n_answers, &handler);
		return;
	}
	for (i = 0; i < c->q->n_answers; i++) {
		if (qwen_answer_end(&c->q->answer[i], "length", &err) < 0) {
			fail_err(c, &err);
			return;
		}
	}
	if (begin_stream(c) == 0)
		end_response(c);
}

void
qserve_answer_fini(struct qserve_call *c)
{
	qserve_vectors_fini(c);
	qserve_rank_fini(c);
	free_ids(c);
	free(c->prompt_info.turn);
	qwen_answer_stream_free(c->sse);
	qwen_request_free(c->q);
	qwen_sampler_free(c->sampler);
	qwen_text_fini(&c->sampling);
	free(c->grammar);
	memset(&c->prompt_info, 0, sizeof c->prompt_info);
	c->sse = NULL;
	c->q = NULL;
	c->sampler = NULL;
	c->grammar = NULL;
	c->n_grammar = 0;
}
