/* SPDX-License-Identifier: ISC */
/* anthropic.c - answers in the form of /v1/messages: bodies, events, errors. */
#include <string.h>

#include "text/chat/tools.h"
#include "text/request/form.h"

/* The API signs thoughts, and some clients send back only signed ones. */
#define SIGNATURE "unsigned"

/* Adds "usage"; cached prompt tokens are counted separately. */
static void
add_usage(struct qwen_text *t, const struct qwen_request *q)
{
	size_t cached = q->has_cached ? q->n_cached : 0;

	cached = cached < q->n_prompt_tokens ? cached : q->n_prompt_tokens;
	qwen_json_put(t, ",'usage':{'input_tokens':%zu,"
	    "'cache_creation_input_tokens':0,'cache_read_input_tokens':%zu,"
	    "'output_tokens':%zu}", q->n_prompt_tokens - cached, cached,
	    qwen_answers_tokens(q));
}

static void
add_id(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_json_put(t, "{'id':'msg_%llu','type':'message','role':"
	    "'assistant'", q->number);
	qwen_form_model(t, q->model, q->service->model);
}

/* "stop_reason": ..., "stop_sequence": ... */
static void
add_stop(struct qwen_text *t, const struct qwen_answer *a)
{
	qwen_json_put(t, ",'stop_reason':'%s','stop_sequence':%pS",
	    a->stopped != NULL ? "stop_sequence" : strcmp(a->finish,
	    "length") == 0 ? "max_tokens" : a->n_calls > 0 ? "tool_use" :
	    "end_turn", a->stopped);
}

/* Adds a block, complete or (at its beginning) empty. */
static void
add_block(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, int whole)
{
	struct qwen_str s = qwen_block_text(a, b, 0);
	struct qwen_str name = { s.s, b->n_name };

	s.len = whole ? s.len : 0;
	if (b->kind == QWEN_BLOCK_TEXT)
		qwen_json_put(t, ",{'type':'text','text':%pS", &s);
	else if (b->kind == QWEN_BLOCK_REASONING)
		qwen_json_put(t, ",{'type':'thinking','thinking':%pS,"
		    "'signature':'%s'", &s, whole ? SIGNATURE : "");
	else {
		/* a result has the same ids whenever it is written */
		qwen_json_put(t, ",{'type':'tool_use','id':'toolu_%llu_%zu',"
		    "'name':%pS,'input':", a->request->number,
		    (size_t)(b - a->block), &name);
		if (whole)
			qwen_block_object(t, a, b);
		else
			qwen_text_str(t, "{}");
	}
	qwen_text_str(t, "}");
}

void
qwen_anthropic_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	const struct qwen_answer *a = q->answer;
	size_t i;

	(void)created;
	add_id(t, q);
	qwen_json_put(t, ",'content':[");
	for (i = 0; i < a->n_blocks; i++)
		add_block(t, a, &a->block[i], 1);
	qwen_text_str(t, "]");
	add_stop(t, a);
	add_usage(t, q);
	qwen_text_str(t, "}");
}

/* ------------------------------------------------------------------- errors */

void
qwen_anthropic_error(struct qwen_text *t, int status, const char *code,
    const char *message)
{
	static const struct { int status; const char *type; } row[] = {
		{ 400, "invalid_request_error" }, { 401, "authentication_error" },
		{ 403, "permission_error" }, { 404, "not_found_error" },
		{ 408, "timeout_error" }, { 413, "request_too_large" },
		{ 429, "rate_limit_error" }, { 500, "api_error" },
		{ 503, "overloaded_error" }, { 504, "timeout_error" },
		{ 529, "overloaded_error" },
	};
	const char *type = status < 500 ? "invalid_request_error" : "api_error";
	size_t i;

	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		if (row[i].status == status)
			type = row[i].type;
	}
	qwen_json_put(t, "{'type':'error','error':{'type':'%s','message':'%s'",
	    type, message);
	if (code != NULL && strcmp(code, QWEN_NO_THREADS) == 0)
		qwen_json_put(t, ",'details':{'error_code':'%s'}", code);
	qwen_text_str(t, "}}");
}

/* ------------------------------------------------------------------- events */

/*
 * Begins an event: its name, and its data up to the first field after "type".
 */
static void
begin_event(struct qwen_text *t, const char *name)
{
	qwen_json_put(t, "event: %s\ndata: {'type':'%s'", name, name);
}

static void
on_begin(struct qwen_answer_stream *s, struct qwen_text *t)
{
	begin_event(t, "message_start");
	qwen_json_put(t, ",'message':");
	add_id(t, s->q);
	qwen_json_put(t, ",'content':[],'stop_reason':null,"
	    "'stop_sequence':null");
	add_usage(t, s->q);
	qwen_text_str(t, "}");
	qwen_text_str(t, "}\n\n");
}

static void
on_open(struct qwen_answer_stream *s, struct qwen_text *t)
{
	begin_event(t, "content_block_start");
	qwen_json_put(t, ",'index':%zu,'content_block':", s->sent->block);
	add_block(t, s->a, s->block, 0);
	qwen_text_str(t, "}\n\n");
}

static void
add_delta(struct qwen_text *t, size_t i, const char *type, const char *key,
    struct qwen_str s)
{
	begin_event(t, "content_block_delta");
	qwen_json_put(t, ",'index':%zu,'delta':{'type':'%s','%s':%pS}", i, type,
	    key, &s);
	qwen_text_str(t, "}\n\n");
}

static void
on_more(struct qwen_answer_stream *s, struct qwen_text *t)
{
	struct qwen_str more = qwen_block_text(s->a, s->block, s->sent->at);
	size_t i = s->sent->block;

	if (s->block->kind == QWEN_BLOCK_TEXT)
		add_delta(t, i, "text_delta", "text", more);
	else if (s->block->kind == QWEN_BLOCK_REASONING)
		add_delta(t, i, "thinking_delta", "thinking", more);
	else
		add_delta(t, i, "input_json_delta", "partial_json",
		    qwen_block_text(s->a, s->block, s->block->n_name));
}

static void
on_close(struct qwen_answer_stream *s, struct qwen_text *t)
{
	static const struct qwen_str sign = { SIGNATURE, sizeof SIGNATURE - 1 };

	if (s->block->kind == QWEN_BLOCK_REASONING)
		add_delta(t, s->sent->block, "signature_delta", "signature",
		    sign);
	begin_event(t, "content_block_stop");
	qwen_json_put(t, ",'index':%zu", s->sent->block);
	qwen_text_str(t, "}\n\n");
}

static void
on_finish(struct qwen_answer_stream *s, struct qwen_text *t)
{
	begin_event(t, "message_delta");
	qwen_json_put(t, ",'delta':{");
	add_stop(t, s->a);
	qwen_text_str(t, "}");
	add_usage(t, s->q);
	qwen_text_str(t, "}\n\n");
}

static void
on_end(struct qwen_answer_stream *s, struct qwen_text *t)
{
	if (s->q->refusal.err.code != 0) {
		qwen_form_error_event(s, "event: error\n", t);
		return;
	}
	begin_event(t, "message_stop");
	qwen_text_str(t, "}\n\n");
}

const struct qwen_form_events qwen_anthropic_events = {
	.begin = on_begin, .open = on_open, .more = on_more,
	.close = on_close, .finish = on_finish, .end = on_end,
	.idle = "event: ping\ndata: {\"type\":\"ping\"}\n\n",
};
