/* SPDX-License-Identifier: ISC */
/*
 * result.c - the result line of a batch request.  The same answer always gives
 * the same bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/request/form.h"

#define BATCH_ID "batch_req_"

enum qwen_cut_kind
qwen_request_cut(const struct qwen_request *q)
{
	int held = q->grammar != NULL || q->service->has_grammar;
	size_t i;

	for (i = 0; i < q->n_answers && q->refusal.err.code == 0; i++) {
		if (q->answer[i].finish != NULL &&
		    strcmp(q->answer[i].finish, "length") == 0)
			return held ? QWEN_CUT_SCHEMA : QWEN_CUT_LENGTH;
	}
	return QWEN_CUT_NONE;
}

static const char *const cut_names[] = { [QWEN_CUT_LENGTH] = "length",
    [QWEN_CUT_SCHEMA] = "schema" };

/* Adds ,"run":{...} at the end, after the fields that clients read. */
static void
add_run(struct qwen_text *t, const struct qwen_request *q,
    const struct qwen_result_run *run)
{
	enum qwen_cut_kind cut = qwen_request_cut(q);

	if (run == NULL)
		return;
	qwen_json_put(t, ",'run':{'model':'%s','hash':'%s','options':'%s'",
	    run->model, run->hash, run->options);
	if (run->request != NULL)
		qwen_json_put(t, ",'request':'%s'", run->request);
	if (cut != QWEN_CUT_NONE)
		qwen_json_put(t, ",'cut':'%s'", cut_names[cut]);
	qwen_text_str(t, "}");
}

static void
add_plain(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_json_put(t, "{'line':%llu", q->number);
	if (q->id != NULL)
		qwen_json_put(t, ",'id':%s", q->id);
	if (q->refusal.err.code != 0) {
		qwen_openai_error(t, qwen_refusal_status(&q->refusal),
		    q->refusal.code, q->refusal.param, q->refusal.err.msg);
		return;
	}
	if (q->n_answers == 1)
		qwen_openai_answer(t, &q->answer[0]);
	else
		qwen_openai_choices(t, q);
	qwen_openai_seed(t, q);
	qwen_openai_usage(t, q);
}

static void
add_envelope(struct qwen_text *t, const struct qwen_request *q)
{
	qwen_json_put(t, "{'id':'%s%llu','custom_id':%s,'response':"
	    "{'status_code':%d,'request_id':'req_%llu'", BATCH_ID, q->number,
	    q->id != NULL ? q->id : "null", qwen_refusal_status(&q->refusal),
	    q->number);
	/* the bodies of these forms have no field for the seed */
	if (q->form == QWEN_FORM_RESPONSES || q->form == QWEN_FORM_MESSAGES)
		qwen_openai_seed(t, q);
	qwen_json_put(t, ",'body':");
	qwen_request_body(q, 0, t);
	qwen_json_put(t, "},'error':null");
}

void
qwen_request_result(const struct qwen_request *q,
    const struct qwen_result_run *run, struct qwen_text *t)
{
	if (q->form == QWEN_FORM_PLAIN)
		add_plain(t, q);
	else
		add_envelope(t, q);
	add_run(t, q, run);
	qwen_text_str(t, "}\n");
}

/* Reads the number of a line, from 1, without leading zeros. */
static int
read_digits(const char *s, size_t n, uint64_t *number)
{
	return n > 0 && s[0] == '0' ? -1 : qwen_parse_digits(s, n, number);
}

/* Reads "line" of a plain result, or the number in "id". */
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

/*
 * Returns 1 for a status other than 200; or for an "error", which plain results
 * and those of older versions have.
 */
static int
has_failed(yyjson_val *root)
{
	yyjson_val *status = yyjson_obj_get(yyjson_obj_get(root, "response"),
	    "status_code");

	return qwen_parse_get(root, "error") != NULL ||
	    (yyjson_is_raw(status) && (yyjson_get_len(status) != 3 ||
	    memcmp(yyjson_get_raw(status), "200", 3) != 0));
}

/* Returns 1 if a result or body of any form ended at its token limit. */
static int
was_cut(yyjson_val *v)
{
	yyjson_val *choices = yyjson_obj_get(v, "choices"), *one;
	size_t i, n;

	if (yyjson_equals_str(yyjson_obj_get(v, "finish_reason"), "length") ||
	    yyjson_equals_str(yyjson_obj_get(v, "stop_reason"), "max_tokens") ||
	    yyjson_equals_str(yyjson_obj_get(v, "status"), "incomplete"))
		return 1;
	yyjson_arr_foreach(choices, i, n, one) {
		if (yyjson_equals_str(yyjson_obj_get(one, "finish_reason"),
		    "length"))
			return 1;
	}
	return 0;
}

static enum qwen_cut_kind
read_cut(yyjson_val *root)
{
	yyjson_val *v = yyjson_obj_get(yyjson_obj_get(root, "run"), "cut");
	yyjson_val *body = yyjson_obj_get(yyjson_obj_get(root, "response"),
	    "body");

	if (yyjson_equals_str(v, cut_names[QWEN_CUT_SCHEMA]))
		return QWEN_CUT_SCHEMA;
	return was_cut(body != NULL ? body : root) ? QWEN_CUT_LENGTH :
	    QWEN_CUT_NONE;
}

/* Copies a string of the "run" object; NULL if it is missing. */
static char *
copy_text(struct qwen_refusal *refusal, yyjson_val *run, const char *key)
{
	yyjson_val *v = yyjson_obj_get(run, key);
	char *s = NULL;

	if (yyjson_is_str(v) && (s = strdup(yyjson_get_str(v))) == NULL)
		qwen_oom(&refusal->err);
	return s;
}

static void
read_result(struct qwen_refusal *refusal, yyjson_val *root,
    struct qwen_result *out)
{
	yyjson_val *v, *run = yyjson_obj_get(root, "run");

	out->failed = has_failed(root);
	out->cut = read_cut(root);
	v = yyjson_obj_get(root, yyjson_obj_get(root, "line") != NULL ?
	    "id" : "custom_id");
	if (yyjson_is_str(v) || yyjson_is_raw(v))
		qwen_parse_to_json(refusal, v, &out->id);
	out->model = copy_text(refusal, run, "model");
	out->hash = copy_text(refusal, run, "hash");
	out->options = copy_text(refusal, run, "options");
	out->request = copy_text(refusal, run, "request");
}

void
qwen_result_fini(struct qwen_result *r)
{
	free(r->id);
	free(r->model);
	free(r->hash);
	free(r->options);
	free(r->request);
	*r = (struct qwen_result){ 0 };
}

int
qwen_result_parse(const char *json, size_t n, struct qwen_result *out,
    struct qwen_err *err)
{
	struct qwen_refusal refusal = { 0 };
	yyjson_val *root;
	yyjson_read_err e = { .code = YYJSON_READ_SUCCESS };
	/* top_logprobs may repeat a key, if tokens have the same text */
	yyjson_doc *doc = json == NULL ? NULL : yyjson_read_opts(
	    (char *)(uintptr_t)json, n, YYJSON_READ_NUMBER_AS_RAW, NULL, &e);

	*out = (struct qwen_result){ 0 };
	root = yyjson_doc_get_root(doc);
	if (e.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		qwen_oom(&refusal.err);
	else if (!yyjson_is_obj(root) || read_number(root, &out->number) < 0)
		qwen_refuse_invalid(&refusal, NULL, "the line is not a result");
	else
		read_result(&refusal, root, out);
	yyjson_doc_free(doc);
	if (refusal.err.code == 0)
		return 0;
	qwen_result_fini(out);
	return qwen_fail(err, refusal.err.code, "%s", refusal.err.msg);
}
