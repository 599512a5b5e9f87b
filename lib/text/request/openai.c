/* SPDX-License-Identifier: ISC */
/*
 * openai.c - chats and completions as bodies and as events, and errors.  The
 * same answer always gives the same bytes.
 */
#include <string.h>

#include "text/request/form.h"

/* ------------------------------------------------------------------ answers */

void
qwen_openai_usage(struct qwen_text *t, const struct qwen_request *q)
{
	size_t i, thought = 0, n = qwen_answers_tokens(q);

	qwen_json_put(t, ",'usage':{'prompt_tokens':%zu,'completion_tokens':"
	    "%zu,'total_tokens':%zu", q->n_prompt_tokens, n,
	    q->n_prompt_tokens + n);
	for (i = 0; i < q->n_answers; i++)
		thought += q->answer[i].n_thought;
	if (q->has_cached)
		qwen_json_put(t, ",'prompt_tokens_details':{'cached_tokens':"
		    "%zu},'completion_tokens_details':{'reasoning_tokens':%zu}",
		    q->n_cached, thought);
	qwen_text_str(t, "}");
}

void
qwen_openai_seed(struct qwen_text *t, const struct qwen_request *q)
{
	if (q->seed_drawn)
		qwen_json_put(t, ",'seed':%llu", q->seed);
}

/* Appends the log-probabilities not sent so far. */
static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a, size_t sent[4])
{
	enum qwen_form form = a->request->form;

	if (form == QWEN_FORM_PLAIN) {
		qwen_form_list(t, "logprobs", &a->logprobs, &sent[0]);
		return;
	}
	qwen_json_put(t, ",'logprobs':{");
	if (form == QWEN_FORM_CHAT)
		qwen_form_list(t, "content", &a->logprobs, &sent[0]);
	else {
		qwen_form_list(t, "tokens", &a->lp_tokens, &sent[0]);
		qwen_form_list(t, "token_logprobs", &a->logprobs, &sent[1]);
		qwen_form_list(t, "top_logprobs", &a->lp_top, &sent[2]);
		qwen_form_list(t, "text_offset", &a->lp_offset, &sent[3]);
	}
	qwen_text_str(t, "}");
}

/*
 * Adds call i; its fields after the index, which only a stream has.  In this
 * API its arguments are a string of JSON.
 */
static void
add_call(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, size_t i)
{
	struct qwen_str arguments = qwen_block_text(a, b, b->n_name);
	struct qwen_str name = { qwen_block_text(a, b, 0).s, b->n_name };
	int custom = qwen_block_alias(a, b) != NULL;
	const char *type = custom ? "custom" : "function";

	/* a result has the same ids whenever it is written */
	qwen_json_put(t, ",'id':'call_%llu_%zu_%zu','type':'%s','%s':{'name':"
	    "%pS", a->request->number, (size_t)(a - a->request->answer), i,
	    type, type, &name);
	if (custom) {
		qwen_json_put(t, ",'input':");
		qwen_block_input(t, a, b);
	} else
		qwen_json_put(t, ",'arguments':%pS", &arguments);
	qwen_text_str(t, "}}");
}

static void
add_calls(struct qwen_text *t, const struct qwen_answer *a)
{
	size_t i, n = 0;

	if (a->n_calls == 0)
		return;
	qwen_json_put(t, ",'tool_calls':[");
	for (i = 0; i < a->n_blocks; i++) {
		if (a->block[i].kind != QWEN_BLOCK_CALL)
			continue;
		qwen_json_put(t, ",{");
		add_call(t, a, &a->block[i], n++);
	}
	qwen_text_str(t, "]");
}

static void
add_finish(struct qwen_text *t, const struct qwen_answer *a)
{
	qwen_json_put(t, ",'finish_reason':'%s'", a->n_calls > 0 &&
	    strcmp(a->finish, "stop") == 0 ? "tool_calls" : a->finish);
	/*
	 * clients know few reasons, so vLLM's word for this one is a second
	 * field
	 */
	if (a->repeats)
		qwen_json_put(t, ",'stop_reason':'repetition_detected'");
}

/* "text": ..., "finish_reason": ... */
void
qwen_openai_answer(struct qwen_text *t, const struct qwen_answer *a)
{
	const struct qwen_request *q = a->request;
	int chat = q->form == QWEN_FORM_CHAT;
	size_t sent[4] = { 0 };

	qwen_json_put(t, chat ? ",'message':{'role':'assistant','content':%pT" :
	    ",'text':%pT", &a->text);
	if (a->reasoning.n > 0)
		qwen_json_put(t, ",'reasoning_content':%pT", &a->reasoning);
	add_calls(t, a);
	qwen_text_str(t, chat ? "}" : "");
	if (q->logprobs)
		add_logprobs(t, a, sent);
	else if (q->form != QWEN_FORM_PLAIN)
		qwen_json_put(t, ",'logprobs':null");
	add_finish(t, a);
}

void
qwen_openai_choices(struct qwen_text *t, const struct qwen_request *q)
{
	size_t i;

	qwen_json_put(t, ",'choices':[");
	for (i = 0; i < q->n_answers; i++) {
		qwen_json_put(t, ",{'index':%zu", i);
		qwen_openai_answer(t, &q->answer[i]);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "]");
}

/* {"id": ..., "model": ... of a body or a chunk */
static void
add_head(struct qwen_text *t, const struct qwen_request *q, uint64_t created,
    int is_part)
{
	int chat = q->form == QWEN_FORM_CHAT;

	qwen_json_put(t, "{'id':'%s-%llu','object':'%s%s','created':%llu",
	    chat ? "chatcmpl" : "cmpl", q->number,
	    chat ? "chat.completion" : "text_completion",
	    chat && is_part ? ".chunk" : "", (unsigned long long)created);
	qwen_form_model(t, q->model, q->service->model);
}

/* Adds the fields after the choices, and ends a body or the last chunk. */
static void
add_end(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_openai_seed(t, q);
	qwen_openai_usage(t, q);
	if (q->times.known)
		qwen_llama_timings(t, q);
	qwen_text_str(t, "}");
}

void
qwen_openai_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	add_head(t, q, created, 0);
	qwen_openai_choices(t, q);
	add_end(t, q);
}

/* ------------------------------------------------------------------- errors */

void
qwen_openai_error(struct qwen_text *t, int status, const char *code,
    const char *param, const char *message)
{
	qwen_json_put(t, ",'error':{'message':'%s','type':'%s','param':'%s',"
	    "'code':'%s'}", message, status >= 500 ? "server_error" :
	    status == 429 ? "rate_limit_error" : "invalid_request_error",
	    param, code);
}

/* ------------------------------------------------------------------- events */

/* data: {"id": ..., "choices": [{"index": ... */
static void
begin_choice(struct qwen_text *t, const struct qwen_answer_stream *s, size_t i)
{
	qwen_text_str(t, "data: ");
	add_head(t, s->q, s->created, 1);
	qwen_json_put(t, ",'choices':[{'index':%zu", i);
}

/*
 * Ends an event: log-probabilities not sent so far, and the finish reason if
 * the answer ends.  The last answer that ends has the times, unless an event
 * with the usage follows.
 */
static void
end_choice(struct qwen_text *t, const struct qwen_answer_stream *s, int ends)
{
	size_t n = s->a == NULL ? 0 : s->q->form == QWEN_FORM_CHAT ?
	    s->a->logprobs.n : s->a->lp_tokens.n;

	if (s->a != NULL && s->q->logprobs && (ends || s->sent->lp[0] < n))
		add_logprobs(t, s->a, s->sent->lp);
	else
		qwen_json_put(t, ",'logprobs':null");
	if (ends)
		add_finish(t, s->a);
	else
		qwen_json_put(t, ",'finish_reason':null");
	qwen_text_str(t, "}]");
	if (ends)
		qwen_openai_seed(t, s->q);
	if (s->q->include_usage)
		qwen_json_put(t, ",'usage':null");
	else if (ends && s->q->times.known && s->n_ended == s->q->n_answers)
		qwen_llama_timings(t, s->q);
}

static void
add_nothing(struct qwen_text *t, const struct qwen_answer_stream *s)
{
	qwen_json_put(t, s->q->form == QWEN_FORM_CHAT ? ",'delta':{}" :
	    ",'text':''");
}

static void
on_begin(struct qwen_answer_stream *s, struct qwen_text *t)
{
	size_t i;

	for (i = 0; s->q->form == QWEN_FORM_CHAT && i < s->q->n_answers; i++) {
		begin_choice(t, s, i);
		qwen_json_put(t, ",'delta':{'role':'assistant','content':''}");
		end_choice(t, s, 0);
		qwen_text_str(t, "}\n\n");
	}
}

static void
on_more(struct qwen_answer_stream *s, struct qwen_text *t)
{
	struct qwen_str more = qwen_block_text(s->a, s->block, s->sent->at);

	begin_choice(t, s, qwen_answer_number(s->a));
	if (s->block->kind == QWEN_BLOCK_CALL) {
		qwen_json_put(t, ",'delta':{'tool_calls':[{'index':%zu",
		    s->sent->n_calls);
		add_call(t, s->a, s->block, s->sent->n_calls++);
		qwen_text_str(t, "]}");
	} else
		qwen_json_put(t, s->q->form != QWEN_FORM_CHAT ? ",'text':%pS" :
		    s->block->kind == QWEN_BLOCK_REASONING ?
		    ",'delta':{'reasoning_content':%pS}" :
		    ",'delta':{'content':%pS}", &more);
	end_choice(t, s, 0);
	qwen_text_str(t, "}\n\n");
}

static void
on_finish(struct qwen_answer_stream *s, struct qwen_text *t)
{
	begin_choice(t, s, qwen_answer_number(s->a));
	add_nothing(t, s);
	end_choice(t, s, 1);
	qwen_text_str(t, "}\n\n");
}

static void
on_end(struct qwen_answer_stream *s, struct qwen_text *t)
{
	const struct qwen_request *q = s->q;

	if (q->refusal.err.code != 0)
		qwen_form_error_event(s, "", t);
	else if (q->include_usage) {
		qwen_text_str(t, "data: ");
		add_head(t, q, s->created, 1);
		qwen_json_put(t, ",'choices':[]");
		add_end(t, q);
		qwen_text_str(t, "\n\n");
	}
	qwen_text_str(t, "data: [DONE]\n\n");
}

/* An event with an empty choice, as llama.cpp reports progress. */
static void
on_progress(struct qwen_answer_stream *s, const struct qwen_progress *p,
    struct qwen_text *t)
{
	begin_choice(t, s, 0);
	add_nothing(t, s);
	end_choice(t, s, 0);
	qwen_llama_progress(t, p);
	qwen_text_str(t, "}\n\n");
}

const struct qwen_form_events qwen_openai_events = {
	.begin = on_begin, .more = on_more, .finish = on_finish, .end = on_end,
	.progress = on_progress, .idle = ": wait\n\n",
};
