/* SPDX-License-Identifier: ISC */
/* prompt.c - the prompts of a request, as tokens. */
#include <stdlib.h>

#include "base/err.h"
#include "text/request/ask.h"

/* Room for some prompts, and their answers. */
static int
make_room(struct qwen_ask *r, size_t n)
{
	struct qwen_request *q = r->q;
	size_t i;

	q->prompt = calloc(n, sizeof *q->prompt);
	q->answer = calloc(n * q->n, sizeof *q->answer);
	if (q->prompt == NULL || q->answer == NULL)
		return qwen_oom(&r->no->err);
	q->n_answers = n * q->n;
	for (i = 0; i < q->n_answers; i++)
		q->answer[i] = (struct qwen_answer){
			.request = q, .prompt = &q->prompt[i / q->n]
		};
	return 0;
}

/* One prompt: text or ids. */
static int
add_one(struct qwen_ask *r, yyjson_val *v)
{
	struct qwen_ids *p = &r->q->prompt[r->q->n_prompts++];

	if (yyjson_is_str(v)) {
		if (qwen_ask_encode(r->no, "prompt", r->s->tok, r->s->encode,
		    yyjson_get_str(v), yyjson_get_len(v), p) < 0)
			return -1;
	} else if (!yyjson_is_arr(v))
		return bad(r->no, "prompt: is not a text, a list of token "
		    "ids, or a list of these");
	else if (qwen_ask_ids(r->no, "prompt", v, r->s->n_vocab, p) < 0)
		return -1;
	r->q->n_prompt_tokens += p->n;
	return p->n > 0 ? 0 : bad(r->no, "prompt: has no token");
}

static int
read_prompt(struct qwen_ask *r, yyjson_val *v)
{
	yyjson_val *first = yyjson_arr_get_first(v), *one;
	int many = yyjson_is_str(first) || yyjson_is_arr(first);
	size_t i, n = many ? yyjson_arr_size(v) : 1;

	if (n > QWEN_CHOICES_MAX / r->q->n)
		return bad(r->no, "more than %d answers", QWEN_CHOICES_MAX);
	if (make_room(r, n) < 0)
		return -1;
	if (!many)
		return add_one(r, v);
	yyjson_arr_foreach(v, i, n, one) {
		if (add_one(r, one) < 0)
			return -1;
	}
	return 0;
}

/* What the chat template makes of the request. */
static int
render(struct qwen_ask *r, struct qwen_prompt **p)
{
	struct qwen_err err;
	char *text;
	size_t len;
	int rc;

	if (qwen_ask_json(r->no, r->body, &text, &len) < 0)
		return -1;
	rc = qwen_template_render(r->s->template, text, len, p, &err);
	free(text);
	return rc < 0 ? qwen_ask_failed(r->no, "messages", &err) : 0;
}

static int
read_messages(struct qwen_ask *r)
{
	yyjson_val *tools = qwen_ask_get(r->body, "tools");
	struct qwen_request *q = r->q;
	struct qwen_prompt *p;
	struct qwen_ids *ids;
	struct qwen_err err;
	int rc;

	if (r->s->template == NULL)
		return bad(r->no, "messages: the model has no chat template "
		    "(%s)", r->s->no_template);
	if (make_room(r, 1) < 0 || render(r, &p) < 0)
		return -1;
	ids = &q->prompt[q->n_prompts++];
	rc = qwen_prompt_encode(p, r->s->tok, 0, qwen_prompt_text(p).len,
	    &ids->id, &ids->n, &err);
	q->thinking = qwen_prompt_thinking(p);
	q->thinks = qwen_template_thinks(r->s->template, q->thinking);
	q->n_prompt_tokens = ids->n;
	qwen_prompt_free(p);
	if (rc < 0)
		return qwen_ask_failed(r->no, "messages", &err);
	if (tools != NULL && qwen_ask_json(r->no, tools, &q->tools,
	    &q->n_tools) < 0)
		return -1;
	return ids->n > 0 ? 0 : bad(r->no, "prompt: has no token");
}

int
qwen_ask_prompt(struct qwen_ask *r)
{
	yyjson_val *prompt = qwen_ask_get(r->body, "prompt");
	yyjson_val *messages = qwen_ask_get(r->body, "messages");

	if (prompt != NULL && messages != NULL)
		return bad(r->no, "prompt and messages: one of them");
	if (messages != NULL && r->q->form != QWEN_FORM_COMPLETION)
		return read_messages(r);
	if (prompt == NULL || r->q->form == QWEN_FORM_CHAT)
		return bad(r->no, "%s is missing", r->q->form ==
		    QWEN_FORM_CHAT ? "messages" : "prompt");
	return read_prompt(r, prompt);
}
