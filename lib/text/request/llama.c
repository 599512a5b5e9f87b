/* SPDX-License-Identifier: ISC */
/*
 * llama.c - answers in the form of llama.cpp's /completion; and its fields with
 * times and progress, which other answers have too.
 */
#include <string.h>

#include "text/request/form.h"

/* -------------------------------------------------- fields of other answers */

static double
per(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* Adds "KIND_n", "KIND_ms" and the rates. */
static void
add_times(struct qwen_text *t, const char *kind, size_t n, double s)
{
	qwen_json_put(t, "'%s_n':%zu,'%s_ms':%.3f,'%s_per_token_ms':%.3f,"
	    "'%s_per_second':%.3f", kind, n, kind, s * 1e3, kind, per(s * 1e3,
	    (double)n), kind, per((double)n, s));
}

void
qwen_llama_timings(struct qwen_text *t, const struct qwen_request *q)
{
	size_t cached = q->n_cached < q->n_prompt_tokens ? q->n_cached :
	    q->n_prompt_tokens;

	qwen_json_put(t, ",'timings':{'cache_n':%zu,", cached);
	add_times(t, "prompt", q->n_prompt_tokens - cached, q->times.prompt);
	qwen_text_str(t, ",");
	add_times(t, "predicted", qwen_answers_tokens(q), q->times.answer);
	qwen_text_str(t, "}");
}

void
qwen_llama_progress(struct qwen_text *t, const struct qwen_progress *p)
{
	qwen_json_put(t, ",'prompt_progress':{'total':%zu,'cache':%zu,"
	    "'processed':%zu,'time_ms':%.0f}", p->total, p->cached, p->read,
	    p->seconds * 1e3);
}

/* -------------------------------------------------------------- /completion */

static size_t
number_of(const struct qwen_answer *a)
{
	return (size_t)(a - a->request->answer);
}

/* Adds the generated token ids from index from on. */
static void
add_tokens(struct qwen_text *t, const struct qwen_answer *a, size_t from)
{
	size_t i;

	qwen_json_put(t, ",'tokens':[");
	for (i = from; a->id != NULL && i < a->n; i++)
		qwen_text_fmt(t, "%s%ld", i > from ? "," : "",
		    (long)a->id[i]);
	qwen_text_str(t, "]");
}

static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a, size_t *sent)
{
	if (!a->request->logprobs)
		return;
	qwen_json_put(t, ",'completion_probabilities':[");
	qwen_form_list(t, &a->logprobs, sent);
	qwen_text_str(t, "]");
}

/* Adds the request's settings under the names of their fields. */
static void
add_settings(struct qwen_text *t, const struct qwen_request *q)
{
	size_t i, n;

	qwen_json_put(t, ",'generation_settings':{'n_predict':%lld,'n_probs':"
	    "%zu,'stream':%s", q->max < INT64_MAX ? (long long)q->max : -1,
	    q->logprobs ? q->n_top : 0, q->stream ? "true" : "false");
	for (i = 0; i < q->n_settings; i++) {
		/* temperature 0 also sets greedy, which is no field */
		if (strcmp(q->setting[i].option, "greedy") == 0)
			continue;
		n = strlen(q->setting[i].value);
		qwen_json_put(t, ",'%s':", q->setting[i].key);
		if (n > 0 && strspn(q->setting[i].value, "0123456789+-.eE") ==
		    n)
			qwen_text_str(t, q->setting[i].value);
		else
			qwen_text_json(t, q->setting[i].value, n);
	}
	qwen_json_put(t, ",'stop':[");
	for (i = 0; i < q->n_stop; i++) {
		qwen_json_put(t, "%s%pS", i > 0 ? "," : "", &q->stop[i]);
	}
	qwen_text_str(t, "]}");
}

/* Adds the prompt as text. */
static void
add_prompt(struct qwen_text *t, const struct qwen_answer *a)
{
	struct qwen_text all = { 0 };
	struct qwen_str piece;
	size_t i;

	for (i = 0; i < a->prompt->n; i++) {
		piece = (struct qwen_str){ "", 0 };
		qwen_tok_decoder_put(a->request->service->spell,
		    a->prompt->id[i], &piece, NULL);
		qwen_text_add(&all, piece.s, piece.len);
	}
	qwen_json_put(t, ",'prompt':");
	qwen_text_json(t, all.n > 0 ? all.s : "", all.n);
	t->failed |= all.failed;
	qwen_text_fini(&all);
}

/* Adds the fields that follow the text of an answer that has ended. */
static void
add_end(struct qwen_text *t, const struct qwen_answer *a)
{
	const struct qwen_request *q = a->request;
	int limit = strcmp(a->finish, "length") == 0;

	qwen_json_put(t, ",'id_slot':0,'stop':true,'model':");
	qwen_form_model(t, q);
	qwen_json_put(t, ",'tokens_predicted':%zu,'tokens_evaluated':%zu", a->n,
	    a->prompt->n);
	add_settings(t, q);
	add_prompt(t, a);
	qwen_json_put(t, ",'has_new_line':%s,'truncated':false,'stop_type':"
	    "'%s','stopping_word':", a->text.n > 0 && memchr(a->text.s, '\n',
	    a->text.n) != NULL ? "true" : "false", a->stopped != NULL ? "word" :
	    limit ? "limit" : "eos");
	qwen_text_json(t, a->stopped != NULL ? a->stopped->s : "",
	    a->stopped != NULL ? a->stopped->len : 0);
	qwen_json_put(t, ",'tokens_cached':%zu", q->n_cached);
	if (q->seed_drawn)
		qwen_json_put(t, ",'seed':%llu", (unsigned long long)q->seed);
	if (q->times.known)
		qwen_llama_timings(t, q);
	qwen_text_str(t, "}");
}

static void
add_answer(struct qwen_text *t, const struct qwen_answer *a)
{
	size_t sent = 0;

	qwen_json_put(t, "{'index':%zu,'content':", number_of(a));
	qwen_text_json(t, a->text.n > 0 ? a->text.s : "", a->text.n);
	add_tokens(t, a, a->request->keep_ids ? 0 : a->n);
	add_logprobs(t, a, &sent);
	add_end(t, a);
}

/* Adds all fields, or those that the request wants. */
static void
add_wanted(struct qwen_text *t, const struct qwen_answer *a)
{
	struct qwen_text whole = { 0 };

	if (a->request->fields == NULL) {
		add_answer(t, a);
		return;
	}
	add_answer(&whole, a);
	t->failed |= whole.failed;
	if (!t->failed)
		qwen_infill_pick(t, a->request->fields, &whole);
	qwen_text_fini(&whole);
}

/* A single answer, or a list of answers. */
void
qwen_llama_body(const struct qwen_request *q, struct qwen_text *t)
{
	size_t i;

	if (q->n_answers == 1) {
		add_wanted(t, &q->answer[0]);
		return;
	}
	for (i = 0; i < q->n_answers; i++) {
		qwen_text_str(t, i > 0 ? "," : "[");
		add_wanted(t, &q->answer[i]);
	}
	qwen_text_str(t, "]");
}

/* ------------------------------------------------------------------- events */

static void
begin_event(struct qwen_text *t, struct qwen_answer_cursor *p,
    struct qwen_str s)
{
	qwen_json_put(t, "data: {'index':%zu,'content':%pS", number_of(p->a),
	    &s);
	add_tokens(t, p->a, p->sent->n_ids);
	p->sent->n_ids = p->a->n;
	add_logprobs(t, p->a, &p->sent->lp[0]);
}

static void
on_more(struct qwen_answer_stream *s, struct qwen_answer_cursor *p,
    struct qwen_text *t)
{
	(void)s;
	begin_event(t, p, qwen_block_text(p->a, p->block, p->sent->at));
	qwen_json_put(t, ",'stop':false,'id_slot':0,'tokens_predicted':%zu,"
	    "'tokens_evaluated':%zu}\n\n", p->a->n, p->a->prompt->n);
}

static void
on_finish(struct qwen_answer_stream *s, struct qwen_answer_cursor *p,
    struct qwen_text *t)
{
	(void)s;
	begin_event(t, p, (struct qwen_str){ "", 0 });
	add_end(t, p->a);
	qwen_text_str(t, "\n\n");
}

static void
on_progress(struct qwen_answer_stream *s, const struct qwen_progress *p,
    struct qwen_text *t)
{
	(void)s;
	qwen_json_put(t, "data: {'index':0,'content':'','tokens':[],'stop':"
	    "false,'id_slot':0,'tokens_predicted':0,'tokens_evaluated':%zu",
	    p->total);
	qwen_llama_progress(t, p);
	qwen_text_str(t, "}\n\n");
}

/* The last answer marks the end itself; only an error follows it. */
static void
on_end(struct qwen_answer_stream *s, struct qwen_text *t)
{
	if (s->q->refusal.err.code == 0)
		return;
	qwen_text_str(t, "data: ");
	qwen_request_body(s->q, s->created, t);
	qwen_text_str(t, "\n\n");
}

const struct qwen_form_events qwen_llama_events = {
	.more = on_more, .finish = on_finish, .end = on_end,
	.progress = on_progress, .idle = ": wait\n\n",
};
