/* SPDX-License-Identifier: ISC */
/*
 * ollama.c - answers in the form of Ollama's /api/chat and /api/generate:
 * bodies, errors, and streams, which are lines of JSON.
 */
#include <string.h>

#include "text/request/form.h"

/*
 * Adds seconds since 1970 as date and time; computes with years that begin in
 * March.
 */
static void
add_time(struct qwen_text *t, uint64_t s)
{
	unsigned long long day = s / 86400 + 719468, era = day / 146097;
	unsigned d = (unsigned)(day % 146097);
	unsigned y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
	unsigned m;

	d -= 365 * y + y / 4 - y / 100;
	m = (5 * d + 2) / 153;
	d -= (153 * m + 2) / 5;
	s %= 86400;
	qwen_text_fmt(t, ",\"created_at\":\"%04llu-%02u-%02uT%02u:%02u:%02uZ\"",
	    era * 400 + y + (m > 9), m < 10 ? m + 3 : m - 9, d + 1,
	    (unsigned)s / 3600, (unsigned)s / 60 % 60, (unsigned)s % 60);
}

static void
add_head(struct qwen_text *t, const struct qwen_request *q, uint64_t created)
{
	qwen_text_str(t, "{");
	qwen_form_model(t, q->model, q->service->model);
	add_time(t, created);
}

/*
 * Returns 1 for a call with complete arguments.  The API has arguments as an
 * object, which cannot show that a call was truncated, so such a call is left
 * out, as Ollama does.  Without memory, t fails.
 */
static int
is_call(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b)
{
	struct qwen_str s = qwen_block_text(a, b, 0);
	struct qwen_err err;
	yyjson_doc *doc;
	int rc;

	if (b->kind != QWEN_BLOCK_CALL || b->cut)
		return 0;
	doc = qwen_json_open(s.s + b->n_name, s.len - b->n_name, &err);
	if (doc == NULL && err.code == QWEN_ENOMEM)
		t->failed = 1;
	rc = yyjson_is_obj(yyjson_doc_get_root(doc));
	yyjson_doc_free(doc);
	return rc;
}

static void
add_call(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, size_t i)
{
	struct qwen_str s = qwen_block_text(a, b, b->n_name);
	struct qwen_str name = { qwen_block_text(a, b, 0).s, b->n_name };

	qwen_json_put(t, ",{'id':'call_%llu_%zu','function':{'index':%zu,"
	    "'name':%pS,'arguments':", a->request->number, i, i, &name);
	qwen_text_add(t, s.s, s.len);
	qwen_text_str(t, "}}");
}

/*
 * Adds content and thought, under the field names of the request's form;
 * content may be empty, an empty thought is left out.
 */
static void
begin_says(struct qwen_text *t, const struct qwen_request *q,
    struct qwen_str said, struct qwen_str thought)
{
	qwen_json_put(t, q->form == QWEN_FORM_OLLAMA_CHAT ?
	    ",'message':{'role':'assistant','content':%pS" : ",'response':%pS",
	    &said);
	if (thought.len > 0)
		qwen_json_put(t, ",'thinking':%pS", &thought);
}

static void
end_says(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_text_str(t, q->form == QWEN_FORM_OLLAMA_CHAT ? "}" : "");
}

static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a, size_t *sent)
{
	if (a->request->logprobs && *sent < a->logprobs.n)
		qwen_form_list(t, "logprobs", &a->logprobs, sent);
}

static unsigned long long
ns(double s)
{
	return s > 0 ? (unsigned long long)(s * 1e9) : 0;
}

/* Adds the last fields of a body or stream. */
static void
add_end(struct qwen_text *t, const struct qwen_request *q)
{
	const struct qwen_answer *a = q->n_answers > 0 ? q->answer : NULL;

	qwen_json_put(t, ",'done':true,'done_reason':'%s'", a == NULL ?
	    q->done_reason : a->finish);
	/* for a request that continues this one */
	if (a != NULL && q->keep_ids && q->images.n == 0) {
		qwen_json_put(t, ",'context':[");
		qwen_form_ids(t, a->prompt->id, a->prompt->n);
		qwen_form_ids(t, a->id, a->n);
		qwen_text_str(t, "]");
	}
	if (a != NULL)
		qwen_json_put(t, ",'total_duration':%llu,'load_duration':0,"
		    "'prompt_eval_count':%zu,'prompt_eval_duration':%llu,"
		    "'eval_count':%zu,'eval_duration':%llu",
		    ns(q->times.total), q->n_prompt_tokens,
		    ns(q->times.prompt), a->n, ns(q->times.answer));
	qwen_text_str(t, "}");
}

void
qwen_ollama_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	const struct qwen_answer *a = q->n_answers > 0 ? q->answer : NULL;
	struct qwen_str said = { "", 0 }, thought = { "", 0 };
	size_t i, n = 0, sent = 0;

	if (a != NULL) {
		said = (struct qwen_str){ a->text.s, a->text.n };
		thought = (struct qwen_str){ a->reasoning.s, a->reasoning.n };
	}
	add_head(t, q, created);
	begin_says(t, q, said, thought);
	for (i = 0; a != NULL && i < a->n_blocks; i++) {
		if (!is_call(t, a, &a->block[i]))
			continue;
		if (n == 0)
			qwen_json_put(t, ",'tool_calls':[");
		add_call(t, a, &a->block[i], n++);
	}
	qwen_text_str(t, n > 0 ? "]" : "");
	end_says(t, q);
	if (a != NULL)
		add_logprobs(t, a, &sent);
	add_end(t, q);
}

void
qwen_ollama_error(struct qwen_text *t, const char *message)
{
	qwen_json_put(t, "{'error':'%s'}", message);
}

void
qwen_ollama_embed_body(const struct qwen_embeddings_request *q,
    const char *model, const float *vectors, size_t n_embd, int old,
    double seconds, struct qwen_text *t)
{
	size_t i;

	if (q->refusal.err.code != 0) {
		qwen_ollama_error(t, q->refusal.err.msg);
		return;
	}
	if (old) {
		qwen_json_put(t, "{'embedding':");
		qwen_form_vector(t, vectors, q->n > 0 ? n_embd : 0);
		qwen_text_str(t, "}");
		return;
	}
	qwen_text_str(t, "{");
	qwen_form_model(t, q->model, model);
	qwen_json_put(t, ",'embeddings':[");
	for (i = 0; i < q->n; i++)
		qwen_form_vector(t, vectors + i * n_embd, n_embd);
	qwen_json_put(t, "],'total_duration':%llu,'load_duration':0,"
	    "'prompt_eval_count':%zu}", ns(seconds), q->n_tokens);
}

/* ------------------------------------------------------------------- events */

/* Begins a line with what is new in a block; without a block, with nothing. */
static void
add_line(struct qwen_answer_stream *s, struct qwen_text *t)
{
	struct qwen_str said = { "", 0 }, thought = { "", 0 };
	const struct qwen_block *b = s->block;

	if (b != NULL && b->kind != QWEN_BLOCK_CALL)
		*(b->kind == QWEN_BLOCK_TEXT ? &said : &thought) =
		    qwen_block_text(s->a, b, s->sent->at);
	add_head(t, s->q, s->created);
	begin_says(t, s->q, said, thought);
	if (b != NULL && b->kind == QWEN_BLOCK_CALL) {
		qwen_json_put(t, ",'tool_calls':[");
		add_call(t, s->a, b, s->sent->n_calls++);
		qwen_text_str(t, "]");
	}
	end_says(t, s->q);
	if (s->a != NULL)
		add_logprobs(t, s->a, &s->sent->lp[0]);
}

static void
on_more(struct qwen_answer_stream *s, struct qwen_text *t)
{
	if (s->block->kind == QWEN_BLOCK_CALL && !is_call(t, s->a, s->block))
		return;
	add_line(s, t);
	qwen_json_put(t, ",'done':false}\n");
}

static void
on_finish(struct qwen_answer_stream *s, struct qwen_text *t)
{
	add_line(s, t);
	add_end(t, s->q);
	qwen_text_str(t, "\n");
}

static void
on_end(struct qwen_answer_stream *s, struct qwen_text *t)
{
	if (s->q->refusal.err.code == 0 && s->q->n_answers > 0)
		return;
	/* the error, or the answer to a request that loads the model */
	qwen_request_body(s->q, s->created, t);
	qwen_text_str(t, "\n");
}

/* Clients parse every line as JSON, so an empty line is not allowed. */
static void
on_idle(struct qwen_answer_stream *s, struct qwen_text *t)
{
	add_line(s, t);
	qwen_json_put(t, ",'done':false}\n");
}

const struct qwen_form_events qwen_ollama_events = {
	.more = on_more, .finish = on_finish, .end = on_end,
	.on_idle = on_idle,
};
