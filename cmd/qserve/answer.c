/* SPDX-License-Identifier: ISC */
/* answer.c - completions and chats: parse a request, generate its answers. */
#include <math.h>
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

/* The state of a call. */
struct answering {
	struct qserve_reader	 reader;
	struct qwen_request	*q;
	uint64_t		 created;
	struct qwen_answer_stream *sse;
	struct qwen_sampler	*sampler;
	char			*grammar;	/* GBNF, or NULL */
	size_t			 n_grammar;
	struct qwen_text	 sampling;	/* settings in the last
						   request */
	struct ids	{
		int32_t	*id;
		size_t	 n, cap;
	}			*ids;		/* ids of each answer to a chat,
						   for the history; or NULL */
};

/* ----------------------------------------------------- requests to engines */

/*
 * Set *out to the sampler of answer i as text for an engine, or NULL for
 * greedy: 0, or -1 without memory.
 */
static int
describe(struct qserve_call *c, size_t i, char **out)
{
	struct answering *x = c->state;
	struct qwen_sampler *s = tool_service_nth(x->sampler, i % x->q->n);
	struct qwen_text *t = &x->sampling;
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
	struct answering *x = c->state;
	struct qwen_request *q = x->q;
	const struct qwen_ids *p = q->answer[i].prompt;

	*o = (struct qwen_engine_request){
		.kind = QWEN_ENGINE_GENERATE, .tokens = p->id, .n = p->n,
		.n_keep = x->reader.prompt.n_keep,
		.progress = q->tells_progress && i == 0,
		/* an engine must generate one token; it is discarded */
		.max = q->max > 0 ? q->max : 1,
		.logprobs = q->logprobs, .n_top = q->n_top,
		.grammar = x->grammar, .n_grammar = x->n_grammar,
		.bias_ids = q->bias_id, .bias = q->bias, .n_bias = q->n_bias,
		.ending = q->end_id,
		.n_ending = q->end_id != NULL ? q->n_end_ids : 0,
		.spans = c->images.span, .n_spans = c->images.n,
		.n_rows = c->images.n_rows,
	};
	memcpy(o->keep, x->reader.prompt.keep, sizeof x->reader.prompt.keep);
	return describe(c, i, &o->sampling);
}

/* ------------------------------------------------------------------ answers */

/* Answer with the complete body. */
static void
put_body(struct qserve_call *c)
{
	struct answering *x = c->state;

	qwen_request_body(x->q, x->created, &c->out);
	qserve_done(c, qwen_refusal_status(&x->q->refusal));
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
	struct answering *x = c->state;
	size_t i;

	for (i = 0; i < x->q->n_answers; i++)
		qwen_answer_stream_step(x->sse, &x->q->answer[i], &c->out);
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

/* End the answer, or answer with a refusal. */
static void
end_response(struct qserve_call *c)
{
	struct answering *x = c->state;
	double now = cli_now();
	double began = c->began_at > 0 ? c->began_at : c->since;
	double first = c->first_at > 0 ? c->first_at : now;

	/* of the whole answer, its prompt, and the generation */
	x->q->times = (struct qwen_timings){ 1, now - c->since, first - began,
	    now - first };
	qserve_response_keep(c->server, x->q, x->created);
	if (!c->is_stream) {
		put_body(c);
		return;
	}
	qserve_jobs_cancel(c);
	put_steps(c);
	qwen_answer_stream_end(x->sse, &c->out);
	c->ended = 1;
	put_events(c);
}

void
qserve_answer_keep_alive(struct qserve_call *c, double now)
{
	struct answering *x = c->state;

	if (!c->is_stream || c->ended || now < c->sent_at + IDLE_S)
		return;
	qwen_answer_stream_idle(x->sse, &c->out);
	put_events(c);
}

static void
fail(struct qserve_call *c, const char *code,
    const char *message)
{
	struct answering *x = c->state;

	qwen_refuse(&x->q->refusal, code, NULL, "%s", message);
	end_response(c);
}

static void
fail_err(struct qserve_call *c, const struct qwen_err *err)
{
	fail(c, err->code == QWEN_ENOMEM ? "out_of_memory" : "failed",
	    err->msg);
}

/* Begin the stream.  Later errors become events. */
static int
begin_stream(struct qserve_call *c)
{
	struct answering *x = c->state;
	struct qwen_request *q = x->q;
	struct qwen_err err;

	if (!q->stream || c->is_stream)
		return 0;
	if (qwen_answer_stream_new(&x->sse, q, x->created, &err) < 0) {
		fail_err(c, &err);
		return -1;
	}
	c->is_stream = 1;
	c->status = 200;
	qwen_answer_stream_begin(x->sse, &c->out);
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
	struct answering *x = c->state;
	struct qwen_progress p = { x->q->answer[0].prompt->n, x->q->n_cached,
	    n_read, cli_now() - c->began_at };

	if (!x->q->tells_progress || !c->is_stream || c->client_left)
		return;
	qwen_answer_stream_progress(x->sse, &p, &c->out);
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
	struct answering *x = c->state;
	struct qwen_request *q = x->q;

	if (q->form != QWEN_FORM_RESPONSES || !q->stream ||
	    q->n_answers == 0 || strcmp(q->refusal.code, QWEN_TOO_LONG) != 0)
		put_body(c);
	else if (begin_stream(c) == 0)
		end_response(c);
}

static void
begin_answer(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct answering *x = c->state;

	/* all answers to a prompt share it */
	if (i % x->q->n == 0) {
		x->q->n_cached += (size_t)ev->n_cached;
		c->use.n_cached += ev->n_cached;
		c->use.n_prompt += x->q->answer[i].prompt->n;
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
	struct answering *x = c->state;
	struct qwen_err err;

	if (qwen_answer_end(&x->q->answer[i], finish, &err) < 0) {
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
	struct answering *x = c->state;
	size_t i;

	for (i = 0; x->ids != NULL && i < x->q->n_answers; i++)
		free(x->ids[i].id);
	free(x->ids);
	x->ids = NULL;
}

/* Record the id for the history; without memory, records nothing more. */
static void
note_id(struct qserve_call *c, size_t i, int32_t id)
{
	struct answering *x = c->state;
	struct ids *all;

	if (x->ids == NULL)
		return;
	all = &x->ids[i];
	if (qwen_grow(&all->id, &all->cap, all->n + 1, sizeof *all->id) < 0)
		free_ids(c);
	else
		all->id[all->n++] = id;
}

/* Add the ids of answer i to the history, without an ending token. */
static void
add_to_history(struct qserve_call *c, size_t i, int is_ended)
{
	struct answering *x = c->state;
	struct ids *all;

	if (x->ids == NULL)
		return;
	all = &x->ids[i];
	qserve_history_add(c->server->history, &x->reader.prompt, all->id,
	    all->n - (size_t)(is_ended && all->n > 0));
}

/* For editors: return 1 if a second line comes too late to wait for it. */
static int
is_late(const struct qserve_call *c, size_t i)
{
	struct answering *x = c->state;
	const struct qwen_text *t = &x->q->answer[i].text;

	return x->q->line_ms > 0 && t->n > 0 &&
	    (cli_now() - c->first_at) * 1e3 > (double)x->q->line_ms &&
	    memchr(t->s, '\n', t->n) != NULL;
}

/* Copy the most likely tokens of an event; return their number. */
static size_t
get_top(const struct qwen_event *ev, struct qwen_likely top[QWEN_LOGPROBS_MAX])
{
	size_t k;

	for (k = 0; k < ev->n_top && k < QWEN_LOGPROBS_MAX; k++)
		top[k] = (struct qwen_likely){ ev->top_ids[k],
		    ev->top_logprobs[k] };
	return k;
}

static void
add_token(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct answering *x = c->state;
	struct qwen_likely token = { ev->token, ev->logprob };
	struct qwen_likely top[QWEN_LOGPROBS_MAX];
	struct qwen_err err;
	int rc, is_first = c->first_at <= 0;

	if (is_first)
		c->first_at = cli_now();
	if (x->q->max == 0)
		return;
	note_id(c, i, ev->token);
	c->use.n_chosen++;
	rc = qwen_answer_put(&x->q->answer[i], &token, top, get_top(ev, top),
	    &err);
	if (rc < 0) {
		fail_err(c, &err);
	} else if (rc > 0 || is_late(c, i)) {
		qserve_job_cancel(c->jobs[i]);
		/* stopped after the only allowed call: ids and text agree */
		if (x->q->one_call && x->q->answer[i].n_calls > 0)
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
static void
end_by_event(struct qserve_call *c, size_t i,
    const struct qwen_event *ev)
{
	struct answering *x = c->state;

	if (x->q->max == 0 && (strcmp(ev->why, "ending") == 0 ||
	    strcmp(ev->why, "length") == 0)) {
		end_answer(c, i, "length");
	} else if (strcmp(ev->why, "ending") == 0) {
		add_to_history(c, i, 1);
		end_answer(c, i, "stop");
	} else if (strcmp(ev->why, "repeats") == 0) {
		add_to_history(c, i, 0);
		x->q->answer[i].repeats = 1;
		end_answer(c, i, "length");
	} else if (strcmp(ev->why, "length") == 0) {
		add_to_history(c, i, 0);
		end_answer(c, i, "length");
	} else
		fail(c, qserve_error_code(ev), qserve_error_message(ev));
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
		end_by_event(c, i, ev);
}

static const struct qserve_handler handler = { make_request, on_event,
    fail };

static void
generate(struct qserve_call *c)
{
	struct answering *x = c->state;
	struct qwen_err err;
	size_t i;

	if (x->q->n_answers > 0 && (x->q->max > 0 || !x->q->echo)) {
		qserve_jobs_new(c, x->q->n_answers, &handler);
		return;
	}
	for (i = 0; i < x->q->n_answers; i++) {
		if (qwen_answer_end(&x->q->answer[i], "length", &err) < 0) {
			fail_err(c, &err);
			return;
		}
	}
	if (begin_stream(c) == 0)
		end_response(c);
}

/* ------------------------------------------------------------------- echoes */

/*
 * Completions that begin with their prompts.  If log-probabilities are
 * requested, the prompts are scored first; then the answers are generated.
 */

/* Add a token of a prompt to the front of all answers to it. */
static int
put_prompt_token(struct qserve_call *c, size_t prompt,
    const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top)
{
	struct answering *x = c->state;
	struct qwen_request *q = x->q;
	struct qwen_err err;
	size_t i;

	for (i = prompt * q->n; i < (prompt + 1) * q->n; i++) {
		if (qwen_answer_echo(&q->answer[i], token, top, n_top,
		    &err) < 0) {
			fail_err(c, &err);
			return -1;
		}
	}
	return 0;
}

static int
make_echo_request(struct qserve_call *c, size_t i,
    struct qwen_engine_request *o)
{
	struct answering *x = c->state;
	const struct qwen_ids *p = &x->q->prompt[i];

	/* a single token has no score; the engine only confirms it */
	*o = (struct qwen_engine_request){ .tokens = p->id, .n = p->n,
	    .kind = p->n > 1 ? QWEN_ENGINE_SCORE : QWEN_ENGINE_HIDDEN,
	    .from = p->n > 1, .logprobs = p->n > 1,
	    .n_top = p->n > 1 ? x->q->n_top : 0 };
	return 0;
}

static void
on_echo_event(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct answering *x = c->state;
	struct qwen_likely token = { x->q->prompt[i].id[0], NAN };
	struct qwen_likely top[QWEN_LOGPROBS_MAX];

	if (ev->kind == QWEN_EVENT_STARTED) {
		put_prompt_token(c, i, &token, NULL, 0);
	} else if (ev->kind == QWEN_EVENT_SCORE) {
		/* ignore positions outside of the prompt */
		if (ev->at >= x->q->prompt[i].n)
			return;
		token.id = x->q->prompt[i].id[ev->at];
		token.logprob = ev->logprob;
		put_prompt_token(c, i, &token, top, get_top(ev, top));
	} else if (ev->kind == QWEN_EVENT_END && strcmp(ev->why, "done") != 0) {
		end_by_event(c, i, ev);
	} else if (ev->kind == QWEN_EVENT_END && c->n_left == 0) {
		qserve_jobs_cancel(c);
		generate(c);
	}
}

static const struct qserve_handler echo_handler = { make_echo_request,
    on_echo_event, fail };

static void
echo(struct qserve_call *c)
{
	struct answering *x = c->state;
	struct qwen_request *q = x->q;
	struct qwen_likely token = { 0, NAN };
	size_t i, k;

	if (q->logprobs) {
		qserve_jobs_new(c, q->n_prompts, &echo_handler);
		return;
	}
	for (i = 0; i < q->n_prompts; i++) {
		for (k = 0; k < q->prompt[i].n; k++) {
			token.id = q->prompt[i].id[k];
			if (put_prompt_token(c, i, &token, NULL, 0) < 0)
				return;
		}
	}
	generate(c);
}
/* ----------------------------------------------------------------- requests */

static int
encode(void *arg, const struct qwen_prompt *p, struct qwen_ids *out,
    struct qwen_err *err)
{
	struct qserve_reader *r = arg;

	free(r->prompt.turn);
	return qserve_history_encode(r->history, r->service.tok, p, &r->prompt,
	    out, err);
}

void
qserve_reader_init(struct qserve_reader *r, const struct qserve *s)
{
	*r = (struct qserve_reader){ .service = s->with.service,
	    .history = s->history };
	r->service.encode_prompt = encode;
	r->service.encode_arg = r;
}

void
qserve_reader_fini(struct qserve_reader *r)
{
	free(r->prompt.turn);
}

/* Move the positions to keep: an image has been one token, and has many ids. */
static void
move_keep(struct qserve_prompt *p, const struct qserve_needs *x)
{
	size_t i, k, at;

	for (k = 0; k < p->n_keep; k++) {
		/* at: its position with the images that come before it */
		for (i = 0, at = p->keep[k]; i < x->n &&
		    x->span[i].span.start < at; i++)
			at += (size_t)x->span[i].span.n - 1;
		p->keep[k] = at;
	}
}

/* The images of the request are in its prompt; it may be refused. */
static void
begin_answers(struct qserve_call *c)
{
	struct answering *x = c->state;
	struct qserve *s = c->server;
	struct qwen_err err;
	int refused;

	refused = x->q->refusal.err.code != 0 || (s->with.service.n_ctx > 0 &&
	    qwen_request_fits(x->q, s->with.service.n_ctx) < 0) ||
	    tool_service_sampler(&s->with, x->q, &x->sampler) < 0;
	if (x->q->seed_drawn)
		snprintf(c->seed, sizeof c->seed, "%llu", x->q->seed);
	if (refused) {
		put_refusal(c);
		return;
	}
	if (qwen_request_grammar(x->q, &x->grammar, &x->n_grammar, &err) < 0) {
		fail(c, err.code == QWEN_ENOMEM ?
		    "out_of_memory" : "invalid_request", err.msg);
		return;
	}
	move_keep(&x->reader.prompt, &c->images);
	if (x->reader.prompt.turn != NULL && s->history != NULL)
		x->ids = calloc(x->q->n_answers, sizeof *x->ids);
	if (x->q->echo)
		echo(c);
	else
		generate(c);
}

static void
begin(struct qserve_call *c)
{
	struct answering *x = c->state;
	struct qserve *s = c->server;
	struct qwen_err err;

	qserve_reader_init(&x->reader, s);
	if (qwen_request_parse(&x->q, &x->reader.service, c->form, c->body.s,
	    c->body.n, &err) < 0) {
		qserve_error(c, 500, "out_of_memory", "%s", err.msg);
		return;
	}
	tool_report_notes(&s->unknown);
	x->q->arg = c;
	x->q->number = c->number;
	x->q->has_cached = 1;	/* 0 tokens, if no engine is needed */
	x->created = (uint64_t)time(NULL);
	c->use.n_answers = x->q->n_answers;
	qserve_images_get(c, x->q, 1, begin_answers);
}

static void
end(struct qserve_call *c)
{
	struct answering *x = c->state;

	free_ids(c);
	qserve_reader_fini(&x->reader);
	qwen_answer_stream_free(x->sse);
	qwen_request_free(x->q);
	qwen_sampler_free(x->sampler);
	qwen_text_fini(&x->sampling);
	free(x->grammar);
}

const struct qserve_kind qserve_answers = { begin,
    sizeof(struct answering), end };
