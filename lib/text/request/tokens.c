/* SPDX-License-Identifier: ISC */
/*
 * tokens.c - requests about tokens: tokenize a text, detokenize ids, render a
 * chat's prompt, count tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/request/form.h"

/* Puts the error in place of the answer if there is one. */
static int
finish(enum qwen_form form, const struct qwen_refusal *refusal, int *status,
    struct qwen_text *t, struct qwen_err *err)
{
	if (refusal->err.code == QWEN_ENOMEM || t->failed)
		return qwen_oom(err);
	*status = qwen_refusal_status(refusal);
	if (refusal->err.code == 0)
		return 0;
	t->n = 0;
	qwen_error_body(form, *status, refusal->code, refusal->param,
	    refusal->err.msg, t);
	return t->failed ? qwen_oom(err) : 0;
}

/* -------------------------------------------------------------- text to ids */

/* Adds a string, or a list of bytes if it is not UTF-8. */
static void
add_piece(struct qwen_text *t, struct qwen_str s)
{
	size_t i;

	if (qwen_utf8_check(s.s, s.len) == s.len) {
		qwen_text_json(t, s.s, s.len);
		return;
	}
	qwen_text_str(t, "[");
	for (i = 0; i < s.len; i++)
		qwen_json_put(t, ",%u", (unsigned)(unsigned char)s.s[i]);
	qwen_text_str(t, "]");
}

static void
add_tokens(const struct qwen_service *s, const struct qwen_ids *ids,
    int pieces, struct qwen_text *t)
{
	size_t i;

	qwen_json_put(t, "{'tokens':[");
	for (i = 0; i < ids->n; i++) {
		qwen_json_put(t, pieces ? ",{'id':%ld,'piece':" : ",%ld",
		    (long)ids->id[i]);
		if (!pieces)
			continue;
		add_piece(t, qwen_form_spell(s, ids->id[i]));
		qwen_text_str(t, "}");
	}
	qwen_json_put(t, "],'count':%zu", ids->n);
}

static void
add_strings(const struct qwen_service *s, const struct qwen_ids *ids,
    struct qwen_text *t)
{
	struct qwen_str piece;
	size_t i;

	qwen_json_put(t, ",'token_strs':[");
	for (i = 0; i < ids->n; i++) {
		piece = qwen_form_spell(s, ids->id[i]);
		qwen_json_put(t, ",%pS", &piece);
	}
	qwen_text_str(t, "]");
}

/*
 * Reads a text: "content", as in llama.cpp, with BOS only if add_special is
 * set; or "prompt", as in vLLM, with BOS unless add_special_tokens is false.
 */
static int
read_text(struct qwen_parser *r, struct qwen_ids *ids)
{
	int content = qwen_parse_get(r->body, "content") != NULL;
	const char *key = content ? "content" : "prompt";
	struct qwen_str text = { NULL, 0 };
	int special, begin;

	if (content == (qwen_parse_get(r->body, "prompt") != NULL))
		return qwen_invalid(r, NULL, "give one of: content, prompt, "
		    "messages");
	if (qwen_read_string(r, key, &text) < 0 ||
	    (special = qwen_read_truth(r, "parse_special", 1)) < 0 ||
	    (begin = qwen_read_truth(r, content ? "add_special" :
	    "add_special_tokens", !content)) < 0 ||
	    qwen_parse_encode(r->refusal, key, r->s->tok, special ?
	    QWEN_TOK_SPECIAL : 0, text.s, text.len, ids) < 0)
		return -1;
	return begin ? qwen_tok_begin(r->s->tok, &ids->id, &ids->n,
	    &r->refusal->err) : 0;
}

static int
tokenize(struct qwen_parser *r, size_t n_ctx, const struct qwen_ids *chat,
    struct qwen_text *t)
{
	int pieces = qwen_read_truth(r, "with_pieces", 0);
	int strings = qwen_read_truth(r, "return_token_strs", 0);
	struct qwen_ids ids = { 0 };
	int rc;

	if (pieces < 0 || strings < 0)
		return -1;
	rc = chat != NULL ? 0 : read_text(r, &ids);
	if (rc == 0) {
		chat = chat != NULL ? chat : &ids;
		add_tokens(r->s, chat, pieces, t);
		if (n_ctx > 0)
			qwen_json_put(t, ",'max_model_len':%zu", n_ctx);
		if (strings)
			add_strings(r->s, chat, t);
		qwen_text_str(t, "}");
	}
	free(ids.id);
	return rc;
}

/* Fields of these requests; a chat has none of those that are used. */
static const struct qwen_fields known_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("add_special", "add_special_tokens",
	    "content", "parse_special", "prompt", "return_token_strs", "tokens",
	    "with_pieces"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("model"),
} };

static int
is_ours(yyjson_val *key)
{
	const char *const *w = known_fields.words[QWEN_FIELD_USED];

	while (*w != NULL && !yyjson_equals_str(key, *w))
		w++;
	return *w != NULL;
}

/* Parses the request as a chat, without these fields. */
static int
read_chat(const struct qwen_service *s, yyjson_val *root,
    struct qwen_request **q, struct qwen_err *err)
{
	struct qwen_text t = { 0 };
	yyjson_val *key, *v;
	size_t i, n;
	int rc;

	qwen_text_str(&t, "{");
	yyjson_obj_foreach(root, i, n, key, v) {
		if (!is_ours(key))
			qwen_json_put(&t, ",%p:%p", key, v);
	}
	qwen_text_str(&t, "}");
	rc = t.failed ? qwen_oom(err) : qwen_request_parse(q, s,
	    QWEN_FORM_CHAT, t.s, t.n, err);
	qwen_text_fini(&t);
	return rc;
}

int
qwen_tokens_tokenize(const struct qwen_service *s, size_t n_ctx,
    const char *json, size_t n, int *status, struct qwen_text *t,
    struct qwen_err *err)
{
	struct qwen_refusal refusal = { .code = NULL };
	struct qwen_request *q = NULL;
	struct qwen_parser r = { .s = s, .refusal = &refusal };
	int rc = 0;

	r.doc = qwen_parse_open_mended(&refusal, s->unknown, json, n, &r.body);
	if (qwen_parse_get(r.body, "messages") != NULL) {
		if ((rc = read_chat(s, r.body, &q, err)) == 0)
			refusal = q->refusal;
	} else if (r.body != NULL)
		qwen_parse_check_fields(&r, &known_fields);
	if (rc == 0 && refusal.err.code == 0)
		tokenize(&r, n_ctx, q != NULL ? &q->prompt[0] : NULL, t);
	if (rc == 0)
		rc = finish(QWEN_FORM_PLAIN, &refusal, status, t, err);
	qwen_request_free(q);
	yyjson_doc_free(r.doc);
	return rc;
}

/* -------------------------------------------------------------- ids to text */

static int
detokenize(struct qwen_refusal *refusal, const struct qwen_service *s,
    yyjson_val *v, struct qwen_text *t)
{
	struct qwen_text text = { 0 };
	struct qwen_ids ids = { 0 };
	struct qwen_str piece;
	size_t i;
	int rc;

	if (!yyjson_is_arr(v))
		return v == NULL ? qwen_refuse_invalid(refusal, "tokens",
		    "tokens is missing") : qwen_refuse_field(refusal, "tokens",
		    "is not a list");
	rc = qwen_parse_ids(refusal, "tokens", v, s->n_vocab, &ids);
	for (i = 0; rc == 0 && i < ids.n; i++) {
		piece = qwen_form_spell(s, ids.id[i]);
		qwen_text_add(&text, piece.s, piece.len);
	}
	free(ids.id);
	if (rc == 0) {
		/* the names of llama.cpp and of vLLM */
		qwen_json_put(t, "{'content':%pT,'prompt':%pT}", &text, &text);
	}
	t->failed |= text.failed;
	qwen_text_fini(&text);
	return rc;
}

int
qwen_tokens_detokenize(const struct qwen_service *s, const char *json,
    size_t n, int *status, struct qwen_text *t, struct qwen_err *err)
{
	struct qwen_refusal refusal = { .code = NULL };
	yyjson_val *root;
	yyjson_doc *doc = qwen_parse_open(&refusal, json, n, &root);

	if (root != NULL)
		detokenize(&refusal, s, qwen_parse_get(root, "tokens"), t);
	yyjson_doc_free(doc);
	return finish(QWEN_FORM_PLAIN, &refusal, status, t, err);
}

/* -------------------------------------------------------------------- chats */

int
qwen_tokens_prompt(const struct qwen_service *s, const char *json, size_t n,
    int *status, struct qwen_text *t, struct qwen_err *err)
{
	struct qwen_text text = { 0 };
	struct qwen_request *q;
	int rc;

	if (qwen_parse_request(&q, s, QWEN_FORM_CHAT, json, n, &text, err) < 0)
	    {
		qwen_text_fini(&text);
		return -1;
	}
	qwen_json_put(t, "{'prompt':");
	qwen_text_json(t, text.n > 0 ? text.s : "", text.n);
	qwen_text_str(t, "}");
	t->failed |= text.failed;
	qwen_text_fini(&text);
	rc = finish(QWEN_FORM_PLAIN, &q->refusal, status, t, err);
	qwen_request_free(q);
	return rc;
}

int
qwen_tokens_count(const struct qwen_request *q, int *status,
    struct qwen_text *t, struct qwen_err *err)
{
	qwen_text_fmt(t, q->form == QWEN_FORM_RESPONSES ? "{\"object\":"
	    "\"response.input_tokens\",\"input_tokens\":%zu}" :
	    "{\"input_tokens\":%zu}", q->n_prompt_tokens);
	return finish(q->form, &q->refusal, status, t, err);
}
