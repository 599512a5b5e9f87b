/* SPDX-License-Identifier: ISC */
/*
 * parse.c - parses a request, alone or in a line of a batch.  Its errors become
 * its own refusal and affect no other request.
 */
#include <stdlib.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/request/form.h"

/* Sets the form and the body of a line; -1: refused. */
static int
read_form(struct qwen_parser *r, yyjson_val *root)
{
	static const struct { const char *path; enum qwen_form form; } urls[] = {
		{ "/v1/completions", QWEN_FORM_COMPLETION },
		{ "/v1/chat/completions", QWEN_FORM_CHAT },
		{ "/v1/responses", QWEN_FORM_RESPONSES },
		{ "/v1/messages", QWEN_FORM_MESSAGES },
	};
	yyjson_val *url = yyjson_obj_get(root, "url");
	yyjson_val *method = yyjson_obj_get(root, "method");
	size_t i, n = sizeof urls / sizeof urls[0];

	r->body = root;
	if (yyjson_obj_get(root, "body") == NULL &&
	    yyjson_obj_get(root, "custom_id") == NULL)
		return 0;
	r->q->form = QWEN_FORM_COMPLETION;
	r->body = yyjson_obj_get(root, "body");
	if (qwen_parse_get(r->body, "messages") != NULL)
		r->q->form = QWEN_FORM_CHAT;
	for (i = 0; i < n && !yyjson_equals_str(url, urls[i].path); i++)
		;
	if (url != NULL && i == n)
		return qwen_wrong(r, "url", "only /v1/completions, "
		    "/v1/chat/completions, /v1/responses and /v1/messages are "
		    "served");
	if (url != NULL)
		r->q->form = urls[i].form;
	if (method != NULL && !yyjson_equals_str(method, "POST"))
		return qwen_wrong(r, "method", "must be POST");
	return 0;
}

/*
 * Reads form, body and id.  Reads the id even if the form is wrong, so that the
 * error has the id.
 */
static int
read_envelope(struct qwen_parser *r, yyjson_val *root)
{
	int failed = read_form(r, root);
	int plain = r->q->form == QWEN_FORM_PLAIN;

	if (qwen_parse_id(r->refusal, root, plain ? "id" : "custom_id", plain,
	    &r->q->id) < 0)
		return -1;
	if (!plain && r->s != NULL && qwen_parse_check_envelope(r, root) < 0)
		return -1;
	if (!plain && r->q->id == NULL)
		return qwen_invalid(r, "custom_id", "custom_id is missing");
	return failed;
}

/* Puts lines in place of images and other parts that are not text. */
static int
replace_parts(struct qwen_parser *r)
{
	if (qwen_parse_replace_parts(&r->out, r->body, r->s->placeholder,
	    r->s->reads_images) > 0 || r->out.failed)
		return qwen_parse_replace_body(r);
	qwen_text_fini(&r->out);
	return 0;
}

/*
 * What rewrites bodies of a form as those of OpenAI's chats, and the names of
 * their fields; NULL: the form is one of OpenAI's.
 */
static const struct {
	int			(*read)(struct qwen_parser *r);
	const char *const	*names;
} forms[] = {
	[QWEN_FORM_RESPONSES] = { qwen_parse_responses, qwen_responses_names },
	[QWEN_FORM_COMPACT] = { qwen_parse_responses, qwen_responses_names },
	[QWEN_FORM_MESSAGES] = { qwen_parse_anthropic, qwen_anthropic_names },
	[QWEN_FORM_OLLAMA_CHAT] = { qwen_parse_ollama, qwen_ollama_names },
	[QWEN_FORM_OLLAMA_GENERATE] = { qwen_parse_ollama, qwen_ollama_names },
	[QWEN_FORM_OLLAMA_RAW] = { qwen_parse_ollama, qwen_ollama_names },
	[QWEN_FORM_LLAMA] = { qwen_parse_llama, qwen_llama_names },
	[QWEN_FORM_INFILL] = { qwen_parse_infill, NULL },
};

/* Parses the body in the request's form. */
static int
read_body(struct qwen_parser *r)
{
	enum qwen_form form = r->q->form;
	int rc;

	if (!yyjson_is_obj(r->body))
		return qwen_wrong(r, "body", "is not an object");
	if (r->s->placeholder != NULL && form != QWEN_FORM_COMPLETION &&
	    replace_parts(r) < 0)
		return -1;
	rc = forms[form].read != NULL ? forms[form].read(r) :
	    qwen_parse_check_fields(r, NULL);
	if (rc == 0 && (form == QWEN_FORM_PLAIN || form == QWEN_FORM_CHAT))
		rc = qwen_parse_custom_tools(r);
	if (rc == 0 && r->s->placeholder != NULL && qwen_form_is_ollama(form))
		rc = replace_parts(r);
	if (rc == 0 && (rc = qwen_parse_fields(r)) == 0 && r->q->done_reason ==
	    NULL)
		rc = qwen_parse_prompt(r);
	if (r->only_reads)
		r->q->max = 0;
	qwen_refusal_rename(r->refusal, forms[form].names);
	return rc;
}

/* Parses a line of a batch, or a body. */
static int
parse(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, int is_line, const char *json, size_t n,
    struct qwen_text *text, struct qwen_err *err)
{
	struct qwen_request *q = *out = calloc(1, sizeof *q);
	struct qwen_parser r = { .s = s, .q = q, .text = text };

	if (q == NULL)
		return qwen_oom(err);
	q->service = s;
	q->form = form;
	r.refusal = &q->refusal;
	r.doc = qwen_parse_open_mended(r.refusal, s->unknown, json, n, &r.body);
	q->is_object = yyjson_is_obj(r.body);
	if (r.body != NULL && (!is_line || read_envelope(&r, r.body) == 0))
		read_body(&r);
	if (is_line && !q->is_object && !s->plain_lines)
		q->form = QWEN_FORM_COMPLETION;
	yyjson_doc_free(r.doc);
	yyjson_doc_free(r.allowed);
	qwen_text_fini(&r.out);
	free(r.before.id);
	if (q->refusal.err.code != QWEN_ENOMEM)
		return 0;
	qwen_request_free(q);
	*out = NULL;
	return qwen_oom(err);
}

int
qwen_request_parse(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, const char *json, size_t n, struct qwen_err *err)
{
	return parse(out, s, form, 0, json, n, NULL, err);
}

int
qwen_parse_request(struct qwen_request **out, const struct qwen_service *s,
    enum qwen_form form, const char *json, size_t n, struct qwen_text *text,
    struct qwen_err *err)
{
	return parse(out, s, form, 0, json, n, text, err);
}

int
qwen_request_parse_line(struct qwen_request **out,
    const struct qwen_service *s, const char *json, size_t n,
    struct qwen_err *err)
{
	return parse(out, s, QWEN_FORM_PLAIN, 1, json, n, NULL, err);
}

int
qwen_request_line_id(const char *json, size_t n, char **id,
    enum qwen_line_kind *kind, struct qwen_err *err)
{
	struct qwen_request q = { 0 };
	struct qwen_parser r = { .q = &q, .refusal = &q.refusal };
	yyjson_val *root;
	yyjson_doc *doc = qwen_parse_open_mended(r.refusal, NULL, json, n,
	    &root);
	int is_object = yyjson_is_obj(root);

	q.form = QWEN_FORM_PLAIN;
	if (is_object)
		read_envelope(&r, root);
	yyjson_doc_free(doc);
	*id = q.id;
	*kind = !is_object ? QWEN_LINE_BAD : q.form == QWEN_FORM_PLAIN ?
	    QWEN_LINE_PLAIN : QWEN_LINE_ENVELOPE;
	if (q.refusal.err.code != QWEN_ENOMEM)
		return 0;
	free(q.id);
	*id = NULL;
	return qwen_oom(err);
}

static void
free_answer(struct qwen_answer *a)
{
	qwen_tok_decoder_free(a->decoder);
	qwen_stop_finder_free(a->stop_finder);
	qwen_reply_free(a->reply);
	qwen_text_fini(&a->text);
	qwen_text_fini(&a->reasoning);
	qwen_text_fini(&a->calls);
	free(a->block);
	qwen_text_fini(&a->logprobs);
	qwen_text_fini(&a->lp_tokens);
	qwen_text_fini(&a->lp_top);
	free(a->pending);
	qwen_text_fini(&a->lp_offset);
	free(a->id);
}

void
qwen_request_free(struct qwen_request *q)
{
	size_t i;

	if (q == NULL)
		return;
	qwen_grammar_unshare(q->shared);
	for (i = 0; i < q->n_answers; i++)
		free_answer(&q->answer[i]);
	for (i = 0; i < q->n_prompts; i++)
		free(q->prompt[i].id);
	for (i = 0; i < q->n_stop; i++)
		free((char *)(uintptr_t)q->stop[i].s);
	for (i = 0; i < q->n_settings; i++)
		free(q->setting[i].value);
	free(q->setting);
	qwen_image_sources_fini(&q->images);
	free(q->bias_id);
	free(q->bias);
	free(q->stop_id);
	free(q->end_id);
	free(q->fields);
	free(q->stop);
	free(q->answer);
	free(q->prompt);
	free(q->model);
	free(q->tools);
	for (i = 0; i < q->n_alias; i++) {
		free(q->alias[i].called);
		free(q->alias[i].name);
		free(q->alias[i].space);
	}
	free(q->alias);
	free(q->echoed);
	free(q->previous);
	free(q->items);
	free(q->id);
	free(q);
}
