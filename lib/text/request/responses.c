/* SPDX-License-Identifier: ISC */
/*
 * responses.c - answers in the form of /v1/responses, with blocks as items:
 * bodies and events.
 */
#include <string.h>

#include "text/request/form.h"

/* -------------------------------------------------------------------- items */

/* Kinds of items: their type, and the prefix of their ids. */
enum kind { REASONING, MESSAGE, FUNCTION, CUSTOM, SEARCH };

static const struct {
	const char *type, *id, *delta, *done;	/* names of events, or NULL */
} kinds[] = {
	[REASONING] = { "reasoning", "rs", "reasoning_text.delta",
	    "reasoning_text.done" },
	[MESSAGE] = { "message", "msg", "output_text.delta",
	    "output_text.done" },
	[FUNCTION] = { "function_call", "fc", "function_call_arguments.delta",
	    "function_call_arguments.done" },
	[CUSTOM] = { "custom_tool_call", "ctc", "custom_tool_call_input.delta",
	    "custom_tool_call_input.done" },
	[SEARCH] = { "tool_search_call", "tsc", NULL, NULL },
};

static enum kind
kind_of(const struct qwen_answer *a, const struct qwen_block *b)
{
	const struct qwen_tool_alias *as;

	if (b->kind != QWEN_BLOCK_CALL)
		return b->kind == QWEN_BLOCK_TEXT ? MESSAGE : REASONING;
	as = qwen_block_alias(a, b);
	return as == NULL || as->kind == QWEN_TOOL_FUNCTION ? FUNCTION :
	    as->kind == QWEN_TOOL_CUSTOM ? CUSTOM : SEARCH;
}

/* Adds an id such as "rs_7_0"; a result always has the same ids. */
static void
add_id(struct qwen_text *t, const char *key, const struct qwen_answer *a,
    const struct qwen_block *b)
{
	qwen_json_put(t, ",'%s':'%s_%llu_%zu'", key, kinds[kind_of(a, b)].id,
	    a->request->number, (size_t)(b - a->block));
}

/* Adds the bytes from .. to of the list of log-probabilities. */
static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a, size_t from,
    size_t to)
{
	qwen_json_put(t, ",'logprobs':[");
	if (from < to) {
		from += a->logprobs.s[from] == ',';
		qwen_text_add(t, a->logprobs.s + from, to - from);
	}
	qwen_text_str(t, "]");
}

/* Adds the part of a text or thought, complete or empty. */
static void
add_part(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, int whole)
{
	struct qwen_str s = qwen_block_text(a, b, 0);

	s.len = whole ? s.len : 0;
	qwen_json_put(t, ",{'type':'%s','text':%pS", b->kind ==
	    QWEN_BLOCK_TEXT ? "output_text" : "reasoning_text", &s);
	if (b->kind == QWEN_BLOCK_TEXT) {
		qwen_json_put(t, ",'annotations':[]");
		add_logprobs(t, a, b->lp_from, whole ? b->lp_to : b->lp_from);
	}
	qwen_text_str(t, "}");
}

/* Adds the name of the called tool, as the client knows it. */
static void
add_name(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b)
{
	const struct qwen_tool_alias *as = qwen_block_alias(a, b);
	struct qwen_str called = { qwen_block_text(a, b, 0).s, b->n_name };

	if (as != NULL)
		qwen_json_put(t, ",'name':'%s'", as->name);
	else
		qwen_json_put(t, ",'name':%pS", &called);
}

/* Adds the arguments: a string; of a search, an object; whole: not empty. */
static void
add_arguments(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, int whole)
{
	struct qwen_str s = qwen_block_text(a, b, b->n_name);
	enum kind kind = kind_of(a, b);

	qwen_json_put(t, kind == CUSTOM ? ",'input':" : ",'arguments':");
	if (!whole)
		qwen_json_put(t, kind == SEARCH ? "{}" : "''");
	else if (kind == CUSTOM)
		qwen_block_input(t, a, b);
	else if (kind == SEARCH)
		qwen_block_object(t, a, b);
	else
		qwen_text_json(t, s.s, s.len);
}

static void
add_call(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, int whole)
{
	const struct qwen_tool_alias *as = qwen_block_alias(a, b);

	qwen_json_put(t, ",'call_id':'call_%llu_%zu'", a->request->number,
	    (size_t)(b - a->block));
	if (kind_of(a, b) == SEARCH)
		qwen_json_put(t, ",'execution':'client'");
	else
		add_name(t, a, b);
	if (as != NULL && as->space != NULL)
		qwen_json_put(t, ",'namespace':'%s'", as->space);
	add_arguments(t, a, b, whole);
}

/* Adds an item, complete or as it begins. */
static void
add_item(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, int whole)
{
	int cut = b->kind == QWEN_BLOCK_CALL ? b->cut :
	    b == a->block + a->n_blocks - 1 && a->finish != NULL &&
	    strcmp(a->finish, "length") == 0;

	qwen_json_put(t, ",{");
	add_id(t, "id", a, b);
	qwen_json_put(t, ",'type':'%s','status':'%s'",
	    kinds[kind_of(a, b)].type, !whole ? "in_progress" : cut ?
	    "incomplete" : "completed");
	if (b->kind == QWEN_BLOCK_CALL)
		add_call(t, a, b, whole);
	else {
		qwen_json_put(t, b->kind == QWEN_BLOCK_TEXT ?
		    ",'role':'assistant','content':[" :
		    ",'summary':[],'content':[");
		if (whole)
			add_part(t, a, b, 1);
		qwen_text_str(t, "]");
	}
	qwen_text_str(t, "}");
}

static void
add_items(struct qwen_text *t, const struct qwen_answer *a)
{
	size_t i;

	for (i = 0; i < a->n_blocks; i++)
		add_item(t, a, &a->block[i], 1);
}

/* ---------------------------------------------------------------- responses */

static void
add_usage(struct qwen_text *t, const struct qwen_request *q)
{
	size_t n = qwen_answers_tokens(q);

	qwen_json_put(t, ",'usage':{'input_tokens':%zu,'input_tokens_details':"
	    "{'cached_tokens':%zu,'cache_write_tokens':0},'output_tokens':%zu,"
	    "'output_tokens_details':{'reasoning_tokens':%zu},'total_tokens':"
	    "%zu}", q->n_prompt_tokens, q->n_cached, n, q->answer->n_thought,
	    q->n_prompt_tokens + n);
}

static const char *
error_code(const struct qwen_refusal *refusal)
{
	int status = qwen_refusal_status(refusal);

	return strcmp(refusal->code, QWEN_TOO_LONG) == 0 ? QWEN_TOO_LONG :
	    status == 429 ? "rate_limit_exceeded" :
	    status < 500 ? "invalid_prompt" : "server_error";
}

/* Adds the response; whole: with its items and usage. */
static void
add_response(struct qwen_text *t, const struct qwen_request *q,
    uint64_t created, const char *status, int whole)
{
	qwen_json_put(t, "{'id':'resp_%llu','object':'response','created_at':"
	    "%llu,'status':'%s','background':false", q->number,
	    (unsigned long long)created, status);
	if (strcmp(status, "failed") == 0)
		qwen_json_put(t, ",'error':{'code':'%s','message':'%s'}",
		    error_code(&q->refusal), q->refusal.err.msg);
	else
		qwen_json_put(t, ",'error':null");
	qwen_json_put(t, strcmp(status, "incomplete") == 0 ?
	    ",'incomplete_details':{'reason':'max_output_tokens'}" :
	    ",'incomplete_details':null");
	qwen_form_model(t, q->model, q->service->model);
	qwen_json_put(t, ",'output':[");
	whole = whole && q->n_answers > 0;
	if (whole)
		add_items(t, q->answer);
	qwen_text_str(t, "]");
	if (whole)
		add_usage(t, q);
	else
		qwen_json_put(t, ",'usage':null");
	if (q->echoed != NULL)
		qwen_json_put(t, ",%s", q->echoed);
	qwen_text_str(t, "}");
}

static const char *
status_of(const struct qwen_request *q)
{
	const char *finish = q->answer->finish;

	return q->refusal.err.code != 0 ? "failed" : finish != NULL &&
	    strcmp(finish, "length") == 0 ? "incomplete" : "completed";
}

void
qwen_responses_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	add_response(t, q, created, status_of(q), 1);
}

/* ------------------------------------------------------------------- events */

/*
 * Begins an event: its name, and its data up to the first field after
 * "sequence_number".
 */
static void
begin_event(struct qwen_text *t, struct qwen_answer_stream *s, const char *name)
{
	qwen_json_put(t, "event: response.%s\ndata: {'type':'response.%s',"
	    "'sequence_number':%zu", name, name, s->n_events++);
}

static void
add_event(struct qwen_text *t, struct qwen_answer_stream *s, const char *name,
    const char *status, int whole)
{
	begin_event(t, s, name);
	qwen_json_put(t, ",'response':");
	add_response(t, s->q, s->created, status, whole);
	qwen_text_str(t, "}\n\n");
}

static void
on_begin(struct qwen_answer_stream *s, struct qwen_text *t)
{
	add_event(t, s, "created", "in_progress", 0);
	add_event(t, s, "in_progress", "in_progress", 0);
}

/* Begins an event about an item; if it is not a call, about its only part. */
static void
begin_item(struct qwen_text *t, struct qwen_answer_stream *s, const char *name)
{
	begin_event(t, s, name);
	qwen_json_put(t, ",'output_index':%zu", s->sent->block);
	add_id(t, "item_id", s->a, s->block);
	if (s->block->kind != QWEN_BLOCK_CALL)
		qwen_json_put(t, ",'content_index':0");
}

static void
add_item_event(struct qwen_text *t, struct qwen_answer_stream *s, int whole)
{
	begin_event(t, s, whole ? "output_item.done" : "output_item.added");
	qwen_json_put(t, ",'output_index':%zu,'item':", s->sent->block);
	add_item(t, s->a, s->block, whole);
	qwen_text_str(t, "}\n\n");
}

static void
add_part_event(struct qwen_text *t, struct qwen_answer_stream *s, int whole)
{
	begin_item(t, s, whole ? "content_part.done" : "content_part.added");
	qwen_json_put(t, ",'part':");
	add_part(t, s->a, s->block, whole);
	qwen_text_str(t, "}\n\n");
}

static void
on_open(struct qwen_answer_stream *s, struct qwen_text *t)
{
	add_item_event(t, s, 0);
	if (s->block->kind != QWEN_BLOCK_CALL)
		add_part_event(t, s, 0);
	s->sent->lp[0] = s->block->lp_from;
}

static void
on_more(struct qwen_answer_stream *s, struct qwen_text *t)
{
	struct qwen_str more = qwen_block_text(s->a, s->block, s->sent->at);
	const char *name = kinds[kind_of(s->a, s->block)].delta;

	if (name == NULL)
		return;
	begin_item(t, s, name);
	if (s->block->kind == QWEN_BLOCK_CALL)
		more = qwen_block_text(s->a, s->block, s->block->n_name);
	if (kind_of(s->a, s->block) == CUSTOM) {
		qwen_json_put(t, ",'delta':");
		qwen_block_input(t, s->a, s->block);
	} else
		qwen_json_put(t, ",'delta':%pS", &more);
	if (s->block->kind == QWEN_BLOCK_TEXT)
		add_logprobs(t, s->a, s->sent->lp[0], s->block->lp_to);
	s->sent->lp[0] = s->block->lp_to;
	qwen_text_str(t, "}\n\n");
}

/* Adds the event with the complete text or arguments. */
static void
add_done(struct qwen_answer_stream *s, struct qwen_text *t)
{
	const struct qwen_block *b = s->block;
	struct qwen_str all = qwen_block_text(s->a, b, 0);

	begin_item(t, s, kinds[kind_of(s->a, b)].done);
	if (kind_of(s->a, b) == FUNCTION)
		add_name(t, s->a, b);
	if (b->kind == QWEN_BLOCK_CALL)
		add_arguments(t, s->a, b, 1);
	else
		qwen_json_put(t, ",'text':%pS", &all);
	if (b->kind == QWEN_BLOCK_TEXT)
		add_logprobs(t, s->a, b->lp_from, b->lp_to);
	qwen_text_str(t, "}\n\n");
}

static void
on_close(struct qwen_answer_stream *s, struct qwen_text *t)
{
	if (kinds[kind_of(s->a, s->block)].done != NULL)
		add_done(s, t);
	if (s->block->kind != QWEN_BLOCK_CALL)
		add_part_event(t, s, 1);
	add_item_event(t, s, 1);
}

static void
on_end(struct qwen_answer_stream *s, struct qwen_text *t)
{
	const char *status = status_of(s->q);

	add_event(t, s, status, status, 1);
}

const struct qwen_form_events qwen_responses_events = {
	.begin = on_begin, .open = on_open, .more = on_more,
	.close = on_close, .end = on_end, .idle = ": wait\n\n",
};

/* --------------------------------------------------------------- kept items */

void
qwen_response_items(const struct qwen_request *q, struct qwen_text *t)
{
	qwen_json_put(t, "[%s", q->items != NULL ? q->items : "");
	add_items(t, q->answer);
	qwen_text_str(t, "]");
}

/* --------------------------------------------------------------- compaction */

/*
 * Appends the user messages and a summary, the items with which a later request
 * begins.  The summary is not encrypted; clients only pass it on.
 */
void
qwen_compact_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	static const char before[] = QWEN_COMPACTION
	    "Summary of the conversation so far:\n\n";
	struct qwen_text text = { 0 };

	qwen_text_str(&text, before);
	qwen_text_add(&text, q->answer->text.s, q->answer->text.n);
	qwen_json_put(t, "{'id':'resp_%llu','object':'response.compaction',"
	    "'created_at':%llu,'output':[%s", q->number,
	    (unsigned long long)created, q->echoed != NULL ? q->echoed : "");
	qwen_json_put(t, ",{'id':'cmp_%llu','type':'compaction',"
	    "'encrypted_content':%pT}]", q->number, &text);
	add_usage(t, q);
	qwen_text_str(t, "}");
	qwen_text_fini(&text);
}
