/* SPDX-License-Identifier: ISC */
/* form.c - what all APIs have in common: bodies and events of their answers. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/chat/tools.h"
#include "text/request/form.h"

struct qwen_str
qwen_block_text(const struct qwen_answer *a, const struct qwen_block *b,
    size_t at)
{
	const struct qwen_text *t = b->kind == QWEN_BLOCK_CALL ? &a->calls :
	    b->kind == QWEN_BLOCK_TEXT ? &a->text : &a->reasoning;

	return (struct qwen_str){ t->s + b->from + at, b->n - at };
}

void
qwen_block_object(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b)
{
	struct qwen_str s = qwen_block_text(a, b, b->n_name);
	struct qwen_text closed = { 0 };
	yyjson_doc *d = NULL;
	struct qwen_err err;

	if (b->cut) {
		qwen_chat_close_json(&closed, s.s, s.len);
		d = closed.n > 0 ? qwen_json_open(closed.s, closed.n, &err) :
		    NULL;
		s = (struct qwen_str){ closed.s, closed.n };
		if (!yyjson_is_obj(yyjson_doc_get_root(d)))
			s = (struct qwen_str){ "{}", 2 };
	}
	qwen_text_add(t, s.s, s.len);
	t->failed |= closed.failed;
	yyjson_doc_free(d);
	qwen_text_fini(&closed);
}

size_t
qwen_answers_tokens(const struct qwen_request *q)
{
	size_t i, n = 0;

	for (i = 0; i < q->n_answers; i++)
		n += q->answer[i].n;
	return n;
}

void
qwen_form_model(struct qwen_text *t, const char *asked, const char *model)
{
	qwen_json_put(t, asked != NULL ? ",'model':%s" : ",'model':'%s'",
	    asked != NULL ? asked : model);
}

struct qwen_str
qwen_form_spell(const struct qwen_service *s, int32_t id)
{
	struct qwen_str piece = { "", 0 };

	qwen_tok_decoder_put(s->spell, id, &piece, NULL);
	return piece;
}

size_t
qwen_answer_number(const struct qwen_answer *a)
{
	return (size_t)(a - a->request->answer);
}

void
qwen_form_error_event(struct qwen_answer_stream *s, const char *before,
    struct qwen_text *t)
{
	qwen_text_fmt(t, "%sdata: ", before);
	qwen_request_body(s->q, s->created, t);
	qwen_text_str(t, "\n\n");
}

void
qwen_form_ids(struct qwen_text *t, const int32_t *ids, size_t n)
{
	for (; n > 0; n--)
		qwen_json_put(t, ",%ld", (long)*ids++);
}

void
qwen_form_vector(struct qwen_text *t, const float *v, size_t n)
{
	qwen_json_put(t, ",[");
	for (; n > 0; n--)
		qwen_json_put(t, ",%.9g", (double)*v++);
	qwen_text_str(t, "]");
}

void
qwen_form_list(struct qwen_text *t, const char *key,
    const struct qwen_text *list, size_t *sent)
{
	size_t from = *sent + (*sent > 0 && *sent < list->n);

	qwen_json_put(t, ",'%s':[", key);
	if (from < list->n)
		qwen_text_add(t, list->s + from, list->n - from);
	qwen_text_str(t, "]");
	*sent = list->n;
}

const char *
qwen_form_stream_type(enum qwen_form form)
{
	return qwen_form_is_ollama(form) ? "application/x-ndjson" :
	    "text/event-stream; charset=utf-8";
}

/* ------------------------------------------------------------------- bodies */

int
qwen_refusal_status(const struct qwen_refusal *refusal)
{
	static const struct { const char *code; int status; } row[] = {
		{ "item_not_found", 404 },
		{ "failed", 500 }, { "out_of_memory", 500 },
		{ "queue_full", 429 }, { "unavailable", 503 },
		{ "deadline", 504 },
	};
	size_t i;

	if (refusal->err.code == 0)
		return 200;
	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		if (strcmp(refusal->code, row[i].code) == 0)
			return row[i].status;
	}
	return 400;
}

/* How each form writes answers. */
static const struct {
	void	(*body)(const struct qwen_request *q, uint64_t created,
		    struct qwen_text *t);
	const struct qwen_form_events *events;
} forms[] = {
	[QWEN_FORM_PLAIN] = { qwen_openai_body, &qwen_openai_events },
	[QWEN_FORM_COMPLETION] = { qwen_openai_body, &qwen_openai_events },
	[QWEN_FORM_CHAT] = { qwen_openai_body, &qwen_openai_events },
	[QWEN_FORM_RESPONSES] = { qwen_responses_body,
	    &qwen_responses_events },
	[QWEN_FORM_MESSAGES] = { qwen_anthropic_body, &qwen_anthropic_events },
	[QWEN_FORM_OLLAMA_CHAT] = { qwen_ollama_body, &qwen_ollama_events },
	[QWEN_FORM_OLLAMA_GENERATE] = { qwen_ollama_body, &qwen_ollama_events },
	[QWEN_FORM_OLLAMA_RAW] = { qwen_ollama_body, &qwen_ollama_events },
	[QWEN_FORM_LLAMA] = { qwen_llama_body, &qwen_llama_events },
	[QWEN_FORM_COMPACT] = { qwen_compact_body, &qwen_openai_events },
	[QWEN_FORM_INFILL] = { qwen_llama_body, &qwen_llama_events },
};

void
qwen_error_body(enum qwen_form form, int status, const char *code,
    const char *param, const char *message, struct qwen_text *t)
{
	if (form == QWEN_FORM_MESSAGES)
		qwen_anthropic_error(t, status, code, message);
	else if (qwen_form_is_ollama(form))
		qwen_ollama_error(t, message);
	else {
		qwen_text_str(t, "{");
		qwen_openai_error(t, status, code, param, message);
		qwen_text_str(t, "}");
	}
}

void
qwen_request_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	if (q->refusal.err.code != 0)
		qwen_error_body(q->form, qwen_refusal_status(&q->refusal),
		    q->refusal.code, q->refusal.param, q->refusal.err.msg, t);
	else
		forms[q->form].body(q, created, t);
}

/* ------------------------------------------------------------------- events */

int
qwen_answer_stream_new(struct qwen_answer_stream **out,
    const struct qwen_request *q, uint64_t created, struct qwen_err *err)
{
	struct qwen_answer_stream *s = *out = calloc(1, sizeof *s);

	if (s == NULL)
		return qwen_oom(err);
	s->q = q;
	s->created = created;
	s->events = forms[q->form].events;
	s->all = calloc(q->n_answers + 1, sizeof *s->all);
	if (s->all != NULL)
		return 0;
	free(s);
	*out = NULL;
	return qwen_oom(err);
}

void
qwen_answer_stream_free(struct qwen_answer_stream *s)
{
	if (s == NULL)
		return;
	free(s->all);
	free(s);
}

void
qwen_answer_stream_begin(struct qwen_answer_stream *s, struct qwen_text *t)
{
	if (s->events->begin != NULL)
		s->events->begin(s, t);
}

/* Sends the rest of a block.  Returns 1 if the block is complete. */
static int
tell_block(struct qwen_answer_stream *s, struct qwen_text *t)
{
	struct qwen_sent *sent = s->sent;

	if (!sent->is_open && s->events->open != NULL)
		s->events->open(s, t);
	sent->is_open = 1;
	if (sent->at < s->block->n)
		s->events->more(s, t);
	sent->at = s->block->n;
	if (sent->block + 1 == s->a->n_blocks && s->a->finish == NULL &&
	    s->block->kind != QWEN_BLOCK_CALL)
		return 0;
	if (s->events->close != NULL)
		s->events->close(s, t);
	sent->is_open = 0;
	sent->at = 0;
	sent->block++;
	return 1;
}

void
qwen_answer_stream_step(struct qwen_answer_stream *s,
    const struct qwen_answer *a, struct qwen_text *t)
{
	struct qwen_sent *sent = &s->all[a - s->q->answer];

	s->a = a;
	s->sent = sent;
	while (sent->block < a->n_blocks) {
		s->block = &a->block[sent->block];
		if (!tell_block(s, t))
			break;
	}
	s->block = NULL;
	if (a->finish != NULL && !sent->ended) {
		sent->ended = 1;
		s->n_ended++;
		if (s->events->finish != NULL)
			s->events->finish(s, t);
	}
	s->a = NULL;
}

void
qwen_answer_stream_end(struct qwen_answer_stream *s, struct qwen_text *t)
{
	s->events->end(s, t);
}

void
qwen_answer_stream_progress(struct qwen_answer_stream *s,
    const struct qwen_progress *p, struct qwen_text *t)
{
	if (s->events->progress != NULL)
		s->events->progress(s, p, t);
}

void
qwen_answer_stream_idle(struct qwen_answer_stream *s, struct qwen_text *t)
{
	if (s->events->on_idle != NULL)
		s->events->on_idle(s, t);
	else
		qwen_text_str(t, s->events->idle);
}
