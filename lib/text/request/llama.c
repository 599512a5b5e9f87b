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
	qwen_json_put(t, ",'%s_n':%zu,'%s_ms':%.3f,'%s_per_token_ms':%.3f,"
	    "'%s_per_second':%.3f", kind, n, kind, s * 1e3, kind, per(s * 1e3,
	    (double)n), kind, per((double)n, s));
}

void
qwen_llama_timings(struct qwen_text *t, const struct qwen_request *q)
{
	size_t cached = q->n_cached < q->n_prompt_tokens ? q->n_cached :
	    q->n_prompt_tokens;

	qwen_json_put(t, ",'timings':{'cache_n':%zu", cached);
	add_times(t, "prompt", q->n_prompt_tokens - cached, q->times.prompt);
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

/* Adds the generated token ids from index from on. */
static void
add_tokens(struct qwen_text *t, const struct qwen_answer *a, size_t from)
{
	qwen_json_put(t, ",'tokens':[");
	if (a->id != NULL)
		qwen_form_ids(t, a->id + from, a->n - from);
	qwen_text_str(t, "]");
}

static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a, size_t *sent)
{
	if (a->request->logprobs)
		qwen_form_list(t, "completion_probabilities", &a->logprobs,
		    sent);
}

/* Adds the request's settings under the names of their fields. */
static void
add_settings(struct qwen_text *t, const struct qwen_request *q)
{
	const char *value;
	int is_number;
	size_t i;

	qwen_json_put(t, ",'generation_settings':{'n_predict':%lld,'n_probs':"
	    "%zu,'stream':%s", q->max < INT64_MAX ? (long long)q->max : -1,
	    q->logprobs ? q->n_top : 0, q->stream ? "true" : "false");
	for (i = 0; i < q->n_settings; i++) {
		/* temperature 0 also sets greedy, which is no field */
		if (strcmp(q->setting[i].option, "greedy") == 0)
			continue;
		value = q->setting[i].value;
		is_number = value[0] != '\0' &&
		    value[strspn(value, "0123456789+-.eE")] == '\0';
		qwen_json_put(t, is_number ? ",'%s':%s" : ",'%s':'%s'",
		    q->setting[i].key, value);
	}
	qwen_json_put(t, ",'stop':[");
	for (i = 0; i < q->n_stop; i++)
		qwen_json_put(t, ",%pS", &q->stop[i]);
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
		piece = qwen_form_spell(a->request->service, a->prompt->id[i]);
		qwen_text_add(&all, piece.s, piece.len);
	}
	qwen_json_put(t, ",'prompt':%pT", &all);
	qwen_text_fini(&all);
}

/* Adds the fields that follow the text of an answer that has ended. */
static void
add_end(struct qwen_text *t, const struct qwen_answer *a)
{
	const struct qwen_request *q = a->request;
	static const struct qwen_str none = { "", 0 };
	int limit = strcmp(a->finish, "length") == 0;

	qwen_json_put(t, ",'id_slot':0,'stop':true");
	qwen_form_model(t, q->model, q->service->model);
	qwen_json_put(t, ",'tokens_predicted':%zu,'tokens_evaluated':%zu", a->n,
	    a->prompt->n);
	add_settings(t, q);
	add_prompt(t, a);
	qwen_json_put(t, ",'has_new_line':%s,'truncated':false,'stop_type':"
	    "'%s','stopping_word':%pS,'tokens_cached':%zu", a->text.n > 0 &&
	    memchr(a->text.s, '\n', a->text.n) != NULL ? "true" : "false",
	    a->stopped != NULL ? "word" : limit ? "limit" : "eos",
	    a->stopped != NULL ? a->stopped : &none, q->n_cached);
	qwen_openai_seed(t, q);
	if (q->times.known)
		qwen_llama_timings(t, q);
	qwen_text_str(t, "}");
}

static void
add_answer(struct qwen_text *t, const struct qwen_answer *a)
{
	size_t sent = 0;

	qwen_json_put(t, "{'index':%zu,'content':%pT", qwen_answer_number(a),
	    &a->text);
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
qwen_llama_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	size_t i;

	(void)created;
	if (q->n_answers == 1) {
		add_wanted(t, &q->answer[0]);
		return;
	}
	qwen_text_str(t, "[");
	for (i = 0; i < q->n_answers; i++) {
		qwen_json_put(t, ",");
		add_wanted(t, &q->answer[i]);
	}
	qwen_text_str(t, "]");
}

/* ------------------------------------------------------------------- events */

static void
begin_event(struct qwen_text *t, struct qwen_answer_stream *s,
    struct qwen_str said)
{
	qwen_json_put(t, "data: {'index':%zu,'content':%pS",
	    qwen_answer_number(s->a), &said);
	add_tokens(t, s->a, s->sent->n_ids);
	s->sent->n_ids = s->a->n;
	add_logprobs(t, s->a, &s->sent->lp[0]);
}

static void
on_more(struct qwen_answer_stream *s, struct qwen_text *t)
{
	begin_event(t, s, qwen_block_text(s->a, s->block, s->sent->at));
	qwen_json_put(t, ",'stop':false,'id_slot':0,'tokens_predicted':%zu,"
	    "'tokens_evaluated':%zu}\n\n", s->a->n, s->a->prompt->n);
}

static void
on_finish(struct qwen_answer_stream *s, struct qwen_text *t)
{
	begin_event(t, s, (struct qwen_str){ "", 0 });
	add_end(t, s->a);
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
	if (s->q->refusal.err.code != 0)
		qwen_form_error_event(s, "", t);
}

const struct qwen_form_events qwen_llama_events = {
	.more = on_more, .finish = on_finish, .end = on_end,
	.progress = on_progress, .idle = ": wait\n\n",
};
