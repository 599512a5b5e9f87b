/* SPDX-License-Identifier: ISC */
/*
 * result.c - the line of a batch that answers a request.  It has the same bytes
 * wherever and however often it is made.
 */
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"
#include "text/request/form.h"

#define BATCH_ID "batch_req_"

static void
plain(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_text_fmt(t, "{\"line\":%llu,", (unsigned long long)q->number);
	if (q->id != NULL)
		qwen_text_fmt(t, "\"id\":%s,", q->id);
	if (q->no.err.code != 0) {
		qwen_openai_error(t, qwen_refusal_status(&q->no), q->no.code,
		    q->no.param, q->no.err.msg);
	} else {
		if (q->n_answers == 1) {
			qwen_openai_answer(t, &q->answer[0]);
			qwen_text_str(t, ",");
		} else
			qwen_openai_choices(t, q);
		qwen_openai_seed(t, q);
		qwen_openai_usage(t, q);
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
	    "\"req_%llu\",", qwen_refusal_status(&q->no), number);
	/* these forms have no place for it */
	if (q->form == QWEN_FORM_RESPONSES || q->form == QWEN_FORM_MESSAGES)
		qwen_openai_seed(t, q);
	qwen_text_str(t, "\"body\":");
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
