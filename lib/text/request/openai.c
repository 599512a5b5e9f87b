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

	qwen_json_put(t, "'usage':{'prompt_tokens':%zu,'completion_tokens':%zu,"
	    "'total_tokens':%zu", q->n_prompt_tokens, n, q->n_prompt_tokens +
	    n);
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
		qwen_json_put(t, "'seed':%llu,", (unsigned long long)q->seed);
}

/* Appends the rest of a list after byte *sent. */
static void
add_list(struct qwen_text *t, const char *before, const struct qwen_text *list,
    size_t *sent)
{
	qwen_text_str(t, before);
	qwen_form_list(t, list, sent);
}

/* Appends the log-probabilities not sent so far. */
static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a, size_t sent[4])
{
	const struct qwen_request *q = a->request;

	if (q->form == QWEN_FORM_PLAIN) {
		add_list(t, ",\"logprobs\":[", &a->logprobs, &sent[0]);
		qwen_text_str(t, "]");
	} else if (q->form == QWEN_FORM_CHAT) {
		add_list(t, ",\"logprobs\":{\"content\":[", &a->logprobs,
		    &sent[0]);
		qwen_text_str(t, "]}");
	} else {
		add_list(t, ",\"logprobs\":{\"tokens\":[", &a->lp_tokens,
		    &sent[0]);
		add_list(t, "],\"token_logprobs\":[", &a->logprobs, &sent[1]);
		add_list(t, "],\"top_logprobs\":[", &a->lp_top, &sent[2]);
		add_list(t, "],\"text_offset\":[", &a->lp_offset, &sent[3]);
		qwen_text_str(t, "]}");
	}
}

/* Adds a call; in this API its arguments are a string of JSON. */
static void
add_call(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, size_t i)
{
	struct qwen_str s = qwen_block_text(a, b, 0);
	int custom = qwen_block_alias(a, b) != NULL;

	/* a result has the same ids whenever it is written */
	qwen_json_put(t, "'id':'call_%llu_%zu_%zu','type':'%s','%s':{'name':",
	    (unsigned long long)a->request->number, (size_t)(a -
	    a->request->answer), i, custom ? "custom" : "function", custom ?
	    "custom" : "function");
	qwen_text_json(t, s.s, b->n_name);
	qwen_text_str(t, custom ? ",\"input\":" : ",\"arguments\":");
	if (custom)
		qwen_block_input(t, a, b);
	else
		qwen_text_json(t, s.s + b->n_name, s.len - b->n_name);
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
		qwen_text_str(t, n > 0 ? ",{" : "{");
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

	qwen_json_put(t, "%s%pT", chat ? "\"message\":{\"role\":\"assistant\","
	    "\"content\":" : "\"text\":", &a->text);
	if (a->reasoning.n > 0) {
		qwen_json_put(t, ",'reasoning_content':%pT", &a->reasoning);
	}
	add_calls(t, a);
	if (chat)
		qwen_text_str(t, "}");
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

	qwen_json_put(t, "'choices':[");
	for (i = 0; i < q->n_answers; i++) {
		qwen_json_put(t, "%s{'index':%zu,", i > 0 ? "," : "", i);
		qwen_openai_answer(t, &q->answer[i]);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "],");
}

/* {"id": ..., "model": ..., of a body or a chunk */
static void
add_head(struct qwen_text *t, const struct qwen_request *q, uint64_t created,
    int is_part)
{
	int chat = q->form == QWEN_FORM_CHAT;

	qwen_json_put(t, "{'id':'%s-%llu','object':'%s%s','created':%llu,"
	    "'model':", chat ? "chatcmpl" : "cmpl", (unsigned long
	    long)q->number, chat ? "chat.completion" : "text_completion", chat
	    && is_part ? ".chunk" : "", (unsigned long long)created);
	qwen_form_model(t, q);
	qwen_text_str(t, ",");
}

void
qwen_openai_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	add_head(t, q, created, 0);
	qwen_openai_choices(t, q);
	qwen_openai_seed(t, q);
	qwen_openai_usage(t, q);
	if (q->times.known)
		qwen_llama_timings(t, q);
	qwen_text_str(t, "}");
}

/* ------------------------------------------------------------------- errors */

/* Adds a string, or null. */
static void
add_word(struct qwen_text *t, const char *s)
{
	if (s != NULL)
		qwen_text_json(t, s, strlen(s));
	else
		qwen_text_str(t, "null");
}

void
qwen_openai_error(struct qwen_text *t, int status, const char *code,
    const char *param, const char *message)
{
	qwen_json_put(t, "'error':{'message':");
	add_word(t, message);
	qwen_json_put(t, ",'type':'%s','param':", status >= 500 ? "server_error"
	    : status == 429 ? "rate_limit_error" : "invalid_request_error");
	add_word(t, param);
	qwen_json_put(t, ",'code':");
	add_word(t, code);
	qwen_text_str(t, "}");
}

/* ------------------------------------------------------------------- events */

/* data: {"id": ..., "choices": [{"index": ..., */
static void
begin_choice(struct qwen_text *t, const struct qwen_answer_stream *s, size_t i)
{
	qwen_text_str(t, "data: ");
	add_head(t, s->q, s->created, 1);
	qwen_json_put(t, "'choices':[{'index':%zu,", i);
}

/*
 * Ends an event: log-probabilities not sent so far, and the finish reason if
 * the answer ends.  The last answer that ends has the times, unless an event
 * with the usage follows.
 */
static void
end_choice(struct qwen_text *t, const struct qwen_answer_stream *s,
    struct qwen_answer_cursor *p, int ends)
{
	size_t n = p == NULL ? 0 : s->q->form == QWEN_FORM_CHAT ?
	    p->a->logprobs.n : p->a->lp_tokens.n;

	if (p != NULL && s->q->logprobs && (ends || p->sent->lp[0] < n))
		add_logprobs(t, p->a, p->sent->lp);
	else
		qwen_json_put(t, ",'logprobs':null");
	if (ends)
		add_finish(t, p->a);
	else
		qwen_json_put(t, ",'finish_reason':null");
	qwen_text_str(t, "}]");
	if (ends && s->q->seed_drawn)
		qwen_json_put(t, ",'seed':%llu", (unsigned long
		    long)s->q->seed);
	if (s->q->include_usage)
		qwen_json_put(t, ",'usage':null");
	else if (ends && s->q->times.known && s->n_ended == s->q->n_answers)
		qwen_llama_timings(t, s->q);
	qwen_text_str(t, "}\n\n");
}

static size_t
number_of(const struct qwen_answer_cursor *p)
{
	return (size_t)(p->a - p->a->request->answer);
}

static void
on_begin(struct qwen_answer_stream *s, struct qwen_text *t)
{
	size_t i;

	for (i = 0; s->q->form == QWEN_FORM_CHAT && i < s->q->n_answers; i++) {
		begin_choice(t, s, i);
		qwen_json_put(t, "'delta':{'role':'assistant','content':''}");
		end_choice(t, s, NULL, 0);
	}
}

static void
on_more(struct qwen_answer_stream *s, struct qwen_answer_cursor *p,
    struct qwen_text *t)
{
	struct qwen_str more = qwen_block_text(p->a, p->block, p->sent->at);
	int chat = s->q->form == QWEN_FORM_CHAT;
	size_t i = p->sent->n_calls;

	begin_choice(t, s, number_of(p));
	if (p->block->kind == QWEN_BLOCK_CALL) {
		qwen_json_put(t, "'delta':{'tool_calls':[{'index':%zu,", i);
		add_call(t, p->a, p->block, i);
		qwen_text_str(t, "]}");
		p->sent->n_calls++;
	} else {
		qwen_json_put(t, "%s%pS%s", !chat ? "\"text\":" : p->block->kind
		    == QWEN_BLOCK_REASONING ?
		    "\"delta\":{\"reasoning_content\":" :
		    "\"delta\":{\"content\":", &more, chat ? "}" : "");
	}
	end_choice(t, s, p, 0);
}

static void
on_finish(struct qwen_answer_stream *s, struct qwen_answer_cursor *p,
    struct qwen_text *t)
{
	begin_choice(t, s, number_of(p));
	qwen_text_str(t, s->q->form == QWEN_FORM_CHAT ? "\"delta\":{}" :
	    "\"text\":\"\"");
	end_choice(t, s, p, 1);
}

static void
on_end(struct qwen_answer_stream *s, struct qwen_text *t)
{
	const struct qwen_request *q = s->q;

	if (q->refusal.err.code != 0) {
		qwen_text_str(t, "data: ");
		qwen_request_body(q, s->created, t);
		qwen_text_str(t, "\n\n");
	} else if (q->include_usage) {
		qwen_text_str(t, "data: ");
		add_head(t, q, s->created, 1);
		qwen_json_put(t, "'choices':[],");
		qwen_openai_seed(t, q);
		qwen_openai_usage(t, q);
		if (q->times.known)
			qwen_llama_timings(t, q);
		qwen_text_str(t, "}\n\n");
	}
	qwen_text_str(t, "data: [DONE]\n\n");
}

/* An event with an empty choice, as llama.cpp reports progress. */
static void
on_progress(struct qwen_answer_stream *s, const struct qwen_progress *p,
    struct qwen_text *t)
{
	begin_choice(t, s, 0);
	qwen_json_put(t, "%s,'logprobs':null,'finish_reason':null}]", s->q->form
	    == QWEN_FORM_CHAT ? "\"delta\":{}" : "\"text\":\"\"");
	if (s->q->include_usage)
		qwen_json_put(t, ",'usage':null");
	qwen_llama_progress(t, p);
	qwen_text_str(t, "}\n\n");
}

const struct qwen_form_events qwen_openai_events = {
	.begin = on_begin, .more = on_more, .finish = on_finish, .end = on_end,
	.progress = on_progress, .idle = ": wait\n\n",
};
