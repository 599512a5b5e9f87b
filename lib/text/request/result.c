/* SPDX-License-Identifier: ISC */
/*
 * result.c - what answers a request, as a body or as a line of a batch.  It has
 * the same bytes wherever and however often it is made.
 */
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"

#define BATCH_ID "batch_req_"

static void
add_list(struct qwen_text *t, const char *before, const struct qwen_text *list)
{
	qwen_text_str(t, before);
	qwen_text_add(t, list->s, list->n);
}

static void
add_usage(struct qwen_text *t, const struct qwen_request *q)
{
	size_t i, n = 0;

	for (i = 0; i < q->n_answers; i++)
		n += q->answer[i].n;
	qwen_text_fmt(t, "\"usage\":{\"prompt_tokens\":%zu,"
	    "\"completion_tokens\":%zu,\"total_tokens\":%zu}",
	    q->n_prompt_tokens, n, q->n_prompt_tokens + n);
}

static void
add_logprobs(struct qwen_text *t, const struct qwen_answer *a)
{
	const struct qwen_request *q = a->request;

	if (!q->logprobs) {
		if (q->form != QWEN_FORM_PLAIN)
			qwen_text_str(t, ",\"logprobs\":null");
	} else if (q->form == QWEN_FORM_PLAIN) {
		add_list(t, ",\"logprobs\":[", &a->logprobs);
		qwen_text_str(t, "]");
	} else if (q->form == QWEN_FORM_CHAT) {
		add_list(t, ",\"logprobs\":{\"content\":[", &a->logprobs);
		qwen_text_str(t, "]}");
	} else {
		add_list(t, ",\"logprobs\":{\"tokens\":[", &a->lp_tokens);
		add_list(t, "],\"token_logprobs\":[", &a->logprobs);
		add_list(t, "],\"top_logprobs\":[", &a->lp_top);
		add_list(t, "],\"text_offset\":[", &a->lp_offset);
		qwen_text_str(t, "]}");
	}
}

/* "text": ..., "finish_reason": ... */
static void
add_answer(struct qwen_text *t, const struct qwen_answer *a)
{
	int chat = a->request->form == QWEN_FORM_CHAT;

	qwen_text_str(t, chat ? "\"message\":{\"role\":\"assistant\","
	    "\"content\":" : "\"text\":");
	qwen_text_json(t, a->text.s, a->text.n);
	if (a->reasoning.n > 0) {
		qwen_text_str(t, ",\"reasoning_content\":");
		qwen_text_json(t, a->reasoning.s, a->reasoning.n);
	}
	if (a->n_calls > 0) {
		add_list(t, ",\"tool_calls\":[", &a->calls);
		qwen_text_str(t, "]");
	}
	if (chat)
		qwen_text_str(t, "}");
	add_logprobs(t, a);
	qwen_text_fmt(t, ",\"finish_reason\":\"%s\"", a->n_calls > 0 &&
	    strcmp(a->finish, "stop") == 0 ? "tool_calls" : a->finish);
}

static void
add_choices(struct qwen_text *t, const struct qwen_request *q)
{
	size_t i;

	qwen_text_str(t, "\"choices\":[");
	for (i = 0; i < q->n_answers; i++) {
		qwen_text_fmt(t, "%s{\"index\":%zu,", i > 0 ? "," : "", i);
		add_answer(t, &q->answer[i]);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "],");
}

static void
add_error(struct qwen_text *t, const struct qwen_refusal *no)
{
	const char *quote = no->param != NULL ? "\"" : "";

	qwen_text_str(t, "\"error\":{\"message\":");
	qwen_text_json(t, no->err.msg, strlen(no->err.msg));
	qwen_text_fmt(t, ",\"type\":\"%s\",\"param\":%s%s%s,\"code\":\"%s\"}",
	    qwen_refusal_status(no) < 500 ? "invalid_request_error" :
	    "server_error", quote, no->param != NULL ? no->param : "null",
	    quote, no->code);
}

int
qwen_refusal_status(const struct qwen_refusal *no)
{
	if (no->err.code == 0)
		return 200;
	return strcmp(no->code, "failed") == 0 ||
	    strcmp(no->code, "out_of_memory") == 0 ? 500 : 400;
}

void
qwen_request_body(const struct qwen_request *q, uint64_t created,
    struct qwen_text *t)
{
	int chat = q->form == QWEN_FORM_CHAT;
	const char *model = q->service->model;

	qwen_text_str(t, "{");
	if (q->no.err.code != 0) {
		add_error(t, &q->no);
		qwen_text_str(t, "}");
		return;
	}
	qwen_text_fmt(t, "\"id\":\"%s-%llu\",\"object\":\"%s\",\"created\":%llu,"
	    "\"model\":", chat ? "chatcmpl" : "cmpl",
	    (unsigned long long)q->number,
	    chat ? "chat.completion" : "text_completion",
	    (unsigned long long)created);
	if (q->model != NULL)
		qwen_text_str(t, q->model);
	else
		qwen_text_json(t, model, strlen(model));
	qwen_text_str(t, ",");
	add_choices(t, q);
	add_usage(t, q);
	qwen_text_str(t, "}");
}

/* ------------------------------------------------------- lines of a batch */

static void
plain(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_text_fmt(t, "{\"line\":%llu,", (unsigned long long)q->number);
	if (q->id != NULL)
		qwen_text_fmt(t, "\"id\":%s,", q->id);
	if (q->no.err.code != 0) {
		add_error(t, &q->no);
	} else {
		if (q->n_answers == 1) {
			add_answer(t, &q->answer[0]);
			qwen_text_str(t, ",");
		} else
			add_choices(t, q);
		add_usage(t, q);
	}
	qwen_text_str(t, "}\n");
}

static void
enveloped(struct qwen_text *t, const struct qwen_request *q)
{
	unsigned long long number = q->number;

	qwen_text_fmt(t, "{\"id\":\"" BATCH_ID "%llu\",\"custom_id\":%s,",
	    number, q->id != NULL ? q->id : "null");
	qwen_text_fmt(t, "\"response\":{\"status_code\":%d,\"request_id\":"
	    "\"req_%llu\",\"body\":", qwen_refusal_status(&q->no), number);
	qwen_request_body(q, 0, t);
	qwen_text_str(t, "},\"error\":null}\n");
}

void
qwen_request_result(const struct qwen_request *q, struct qwen_text *t)
{
	if (q->form == QWEN_FORM_PLAIN)
		plain(t, q);
	else
		enveloped(t, q);
}

/* The number of a line, as it is written: from 1 on. */
static int
read_digits(const char *s, size_t n, uint64_t *number)
{
	return n > 0 && s[0] == '0' ? -1 : qwen_ask_digits(s, n, number);
}

/* "line" of a plain result, or what is after the fixed part of "id". */
static int
read_number(yyjson_val *root, uint64_t *number)
{
	yyjson_val *v = yyjson_obj_get(root, "line");
	size_t n = strlen(BATCH_ID);

	if (yyjson_is_raw(v))
		return read_digits(yyjson_get_raw(v), yyjson_get_len(v),
		    number);
	v = yyjson_obj_get(root, "id");
	if (!yyjson_is_str(v) || yyjson_get_len(v) < n ||
	    memcmp(yyjson_get_str(v), BATCH_ID, n) != 0)
		return -1;
	return read_digits(yyjson_get_str(v) + n, yyjson_get_len(v) - n,
	    number);
}

/* A response of another status; or in older files, and plain ones, an error. */
static int
has_failed(yyjson_val *root)
{
	yyjson_val *status = yyjson_obj_get(yyjson_obj_get(root, "response"),
	    "status_code");

	return qwen_ask_get(root, "error") != NULL || (yyjson_is_raw(status) &&
	    (yyjson_get_len(status) != 3 ||
	    memcmp(yyjson_get_raw(status), "200", 3) != 0));
}

int
qwen_result_parse(const char *json, size_t n, uint64_t *number, char **id,
    int *is_error, struct qwen_err *err)
{
	struct qwen_refusal no = { 0 };
	yyjson_val *root, *v;
	yyjson_read_err e = { .code = YYJSON_READ_SUCCESS };
	/* tokens of the same text are keys of one object in top_logprobs */
	yyjson_doc *doc = json == NULL ? NULL : yyjson_read_opts(
	    (char *)(uintptr_t)json, n, YYJSON_READ_NUMBER_AS_RAW, NULL, &e);

	*id = NULL;
	root = yyjson_doc_get_root(doc);
	if (e.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		qwen_oom(&no.err);
	else if (!yyjson_is_obj(root) || read_number(root, number) < 0)
		bad(&no, NULL, "the line is not a result");
	if (no.err.code == 0) {
		*is_error = has_failed(root);
		v = yyjson_obj_get(root, yyjson_obj_get(root, "line") != NULL ?
		    "id" : "custom_id");
		if (yyjson_is_str(v) || yyjson_is_raw(v))
			qwen_ask_json(&no, v, id, NULL);
	}
	yyjson_doc_free(doc);
	return no.err.code == 0 ? 0 :
	    qwen_fail(err, no.err.code, "%s", no.err.msg);
}
