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
	qwen_json_put(t, "{'model':");
	qwen_form_model(t, q);
	add_time(t, created);
}

/*
 * Returns 1 for a call with complete arguments.  The API has arguments as an
 * object, which cannot show that a call was truncated, so such a call is left
 * out, as Ollama does.
 */
static int
is_call(const struct qwen_answer *a, const struct qwen_block *b)
{
	struct qwen_str s = qwen_block_text(a, b, 0);
	struct qwen_err err;
	yyjson_doc *doc;
	int rc;

	if (b->kind != QWEN_BLOCK_CALL || b->cut)
		return 0;
	doc = qwen_json_open(s.s + b->n_name, s.len - b->n_name, &err);
	rc = yyjson_is_obj(yyjson_doc_get_root(doc));
	yyjson_doc_free(doc);
	return rc;
}

static void
add_call(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b, size_t i)
{
	struct qwen_str s = qwen_block_text(a, b, 0);

	qwen_json_put(t, "{'id':'call_%llu_%zu','function':{'index':%zu,"
	    "'name':", (unsigned long long)a->request->number, i, i);
	qwen_text_json(t, s.s, b->n_name);
	qwen_json_put(t, ",'arguments':");
	qwen_text_add(t, s.s + b->n_name, s.len - b->n_name);
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
	int chat = q->form == QWEN_FORM_OLLAMA_CHAT;

	qwen_text_str(t, chat ? ",\"message\":{\"role\":\"assistant\","
	    "\"content\":" : ",\"response\":");
	qwen_text_json(t, said.s != NULL ? said.s : "", said.len);
	if (thought.len > 0) {
		qwen_json_put(t, ",'thinking':%pS", &thought);
	}
}

static void
end_says(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_text_str(t, q->form == QWEN_FORM_OLLAMA_CHAT ? "}" : "");
}

static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a, size_t *sent)
{
	if (!a->request->logprobs || *sent == a->logprobs.n)
		return;
	qwen_json_put(t, ",'logprobs':[");
	qwen_form_list(t, &a->logprobs, sent);
	qwen_text_str(t, "]");
}

static unsigned long long
ns(double s)
{
	return s > 0 ? (unsigned long long)(s * 1e9) : 0;
}

/* Adds the tokens of prompt and answer, for a request that continues them. */
static void
add_context(struct qwen_text *t, const struct qwen_answer *a)
{
	size_t i, n = a->prompt->n;

	qwen_json_put(t, ",'context':[");
	for (i = 0; i < n + a->n; i++)
		qwen_text_fmt(t, "%s%ld", i > 0 ? "," : "", (long)(i < n ?
		    a->prompt->id[i] : a->id[i - n]));
	qwen_text_str(t, "]");
}

/* Adds the last fields of a body or stream. */
static void
add_end(struct qwen_text *t, const struct qwen_request *q)
{
	const struct qwen_answer *a = q->n_answers > 0 ? q->answer : NULL;

	qwen_json_put(t, ",'done':true,'done_reason':'%s'", a == NULL ?
	    q->done_reason : a->finish);
	if (a == NULL) {
		qwen_text_str(t, "}");
		return;
	}
	if (q->keep_ids)
		add_context(t, a);
	qwen_json_put(t, ",'total_duration':%llu,'load_duration':0,"
	    "'prompt_eval_count':%zu,'prompt_eval_duration':%llu,'eval_count':"
	    "%zu,'eval_duration':%llu}", ns(q->times.total), q->n_prompt_tokens,
	    ns(q->times.prompt), a->n, ns(q->times.answer));
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
		if (!is_call(a, &a->block[i]))
			continue;
		qwen_text_str(t, n > 0 ? "," : ",\"tool_calls\":[");
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

static void
add_vector(struct qwen_text *t, const float *v, size_t n)
{
	size_t i;

	qwen_text_str(t, "[");
	for (i = 0; i < n; i++)
		qwen_text_fmt(t, "%s%.9g", i > 0 ? "," : "", (double)v[i]);
	qwen_text_str(t, "]");
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
		add_vector(t, vectors, q->n > 0 ? n_embd : 0);
		qwen_text_str(t, "}");
		return;
	}
	qwen_json_put(t, "{'model':");
	if (q->model != NULL)
		qwen_text_str(t, q->model);
	else
		qwen_text_json(t, model, strlen(model));
	qwen_json_put(t, ",'embeddings':[");
	for (i = 0; i < q->n; i++) {
		qwen_text_str(t, i > 0 ? "," : "");
		add_vector(t, vectors + i * n_embd, n_embd);
	}
	qwen_json_put(t, "],'total_duration':%llu,'load_duration':0,"
	    "'prompt_eval_count':%zu}", ns(seconds), q->n_tokens);
}

/* ------------------------------------------------------------------- events */

static void
on_more(struct qwen_answer_stream *s, struct qwen_answer_cursor *p,
    struct qwen_text *t)
{
	struct qwen_str more = qwen_block_text(p->a, p->block, p->sent->at);
	static const struct qwen_str none = { "", 0 };
	enum qwen_block_kind kind = p->block->kind;

	if (kind == QWEN_BLOCK_CALL && !is_call(p->a, p->block))
		return;
	add_head(t, s->q, s->created);
	begin_says(t, s->q, kind == QWEN_BLOCK_TEXT ? more : none,
	    kind == QWEN_BLOCK_REASONING ? more : none);
	if (kind == QWEN_BLOCK_CALL) {
		qwen_json_put(t, ",'tool_calls':[");
		add_call(t, p->a, p->block, p->sent->n_calls++);
		qwen_text_str(t, "]");
	}
	end_says(t, s->q);
	add_logprobs(t, p->a, &p->sent->lp[0]);
	qwen_json_put(t, ",'done':false}\n");
}

/* Begins a line with an empty content. */
static void
begin_nothing(struct qwen_answer_stream *s, struct qwen_text *t)
{
	static const struct qwen_str none = { "", 0 };

	add_head(t, s->q, s->created);
	begin_says(t, s->q, none, none);
	end_says(t, s->q);
}

static void
on_finish(struct qwen_answer_stream *s, struct qwen_answer_cursor *p,
    struct qwen_text *t)
{
	begin_nothing(s, t);
	add_logprobs(t, p->a, &p->sent->lp[0]);
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
	begin_nothing(s, t);
	qwen_json_put(t, ",'done':false}\n");
}

const struct qwen_form_events qwen_ollama_events = {
	.more = on_more, .finish = on_finish, .end = on_end,
	.on_idle = on_idle,
};
