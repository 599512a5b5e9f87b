/* SPDX-License-Identifier: ISC */
/*
 * responses_in.c - rewrites requests to /v1/responses and /v1/responses/compact
 * as chats.
 */
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

static const struct qwen_field rows[] = {
	{ "access_programs", QWEN_FIELD_IGNORED, NULL },
	{ "background", QWEN_FIELD_REFUSED, NULL },
	{ "background_options", QWEN_FIELD_IGNORED, NULL },
	{ "context_management", QWEN_FIELD_REFUSED, NULL },
	{ "conversation", QWEN_FIELD_REFUSED, NULL },
	{ "image", QWEN_FIELD_IGNORED, NULL },
	{ "include", QWEN_FIELD_USED, NULL },
	{ "input", QWEN_FIELD_USED, NULL },
	{ "instructions", QWEN_FIELD_USED, NULL },
	{ "max_completion_tokens", QWEN_FIELD_ALIAS, "max_output_tokens" },
	{ "max_output_tokens", QWEN_FIELD_USED, NULL },
	{ "max_tokens", QWEN_FIELD_ALIAS, "max_output_tokens" },
	{ "max_tool_calls", QWEN_FIELD_IGNORED, NULL },
	{ "messages", QWEN_FIELD_ALIAS, "input" },
	{ "metadata", QWEN_FIELD_IGNORED, NULL },
	{ "moderation", QWEN_FIELD_REFUSED, NULL },
	{ "parallel_tool_calls", QWEN_FIELD_COPIED, NULL },
	{ "previous_response_id", QWEN_FIELD_USED, NULL },
	{ "prompt", QWEN_FIELD_REFUSED, NULL },
	{ "prompt_cache_key", QWEN_FIELD_IGNORED, NULL },
	{ "prompt_cache_options", QWEN_FIELD_IGNORED, NULL },
	{ "prompt_cache_retention", QWEN_FIELD_IGNORED, NULL },
	{ "reasoning", QWEN_FIELD_USED, NULL },
	{ "response_format", QWEN_FIELD_ALIAS, "text" },
	{ "safety_identifier", QWEN_FIELD_IGNORED, NULL },
	{ "service_tier", QWEN_FIELD_IGNORED, NULL },
	{ "stop", QWEN_FIELD_COPIED, NULL },
	{ "store", QWEN_FIELD_USED, NULL },
	{ "stream_options", QWEN_FIELD_IGNORED, NULL },
	{ "text", QWEN_FIELD_USED, NULL },
	{ "tool_choice", QWEN_FIELD_USED, NULL },
	{ "tools", QWEN_FIELD_USED, NULL },
	{ "top_logprobs", QWEN_FIELD_COPIED, NULL },
	{ "truncation", QWEN_FIELD_IGNORED, NULL },
	{ "user", QWEN_FIELD_IGNORED, NULL },
};
static const struct qwen_fields known_fields = {
	rows, sizeof rows / sizeof rows[0]
};

/* Fields with another name in this API: ours, theirs. */
static const char *const names[][2] = {
	{ "messages", "input" }, { "max_completion_tokens", "max_output_tokens" },
	{ "response_format", "text" }, { "reasoning_effort", "reasoning" },
	{ "logprobs", "include" },
};

void
qwen_refusal_rename_responses(struct qwen_refusal *refusal)
{
	qwen_refusal_rename(refusal, names, sizeof names / sizeof names[0]);
}

/* ------------------------------------------------------------- other fields */

/* Copies a field of an object to the chat under the name as. */
static void
add_as(struct qwen_text *t, yyjson_val *object, const char *key,
    const char *as)
{
	yyjson_val *v = qwen_parse_get(object, key);

	if (v == NULL)
		return;
	qwen_parse_write_key(t, 1, as, strlen(as));
	qwen_json_value(t, v);
}

static int
add_format(struct qwen_parser *r, struct qwen_text *t)
{
	yyjson_val *text = qwen_parse_get(r->body, "text");
	yyjson_val *format = qwen_parse_get(text, "format");
	yyjson_val *schema = yyjson_obj_get(format, "schema");

	if (text != NULL && !yyjson_is_obj(text))
		return qwen_refuse_field(r->refusal, "text", "is not an "
		    "object");
	if (format != NULL && !qwen_parse_has_type(format, "json_schema")) {
		add_as(t, text, "format", "response_format");
		return 0;
	}
	if (format == NULL)
		return 0;
	if (schema == NULL)
		return qwen_refuse_field(r->refusal, "text", "the format has "
		    "no schema");
	qwen_json_put(t, ",'response_format':{'type':'json_schema',"
	    "'json_schema':{'schema':%p}}", schema);
	return 0;
}

static void
add_others(struct qwen_parser *r, struct qwen_text *t)
{
	yyjson_val *body = r->body, *key, *v;
	yyjson_val *top = qwen_parse_get(body, "top_logprobs");
	int logprobs = yyjson_is_raw(top) && (yyjson_get_len(top) != 1 ||
	    yyjson_get_raw(top)[0] != '0');
	size_t i, n;

	yyjson_obj_foreach(body, i, n, key, v) {
		if (!qwen_parse_is_copied(r, &known_fields, key))
			continue;
		qwen_parse_write_key(t, 1, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_json_value(t, v);
	}
	yyjson_arr_foreach(qwen_parse_get(body, "include"), i, n, v)
		logprobs |= yyjson_equals_str(v, "message.output_text.logprobs");
	qwen_text_str(t, logprobs ? ",\"logprobs\":true" : "");
	add_as(t, body, "max_output_tokens", "max_completion_tokens");
	add_as(t, qwen_parse_get(body, "reasoning"), "effort",
	    "reasoning_effort");
}

/* Saves the fields of the request that its response repeats. */
static int
say(struct qwen_parser *r)
{
	static const struct { const char *name, *usual; } row[] = {
		{ "instructions", "null" }, { "max_output_tokens", "null" },
		{ "max_tool_calls", "null" }, { "metadata", "{}" },
		{ "parallel_tool_calls", "true" },
		{ "previous_response_id", "null" }, { "prompt_cache_key", "null" },
		{ "reasoning", "{\"effort\":null,\"summary\":null}" },
		{ "safety_identifier", "null" }, { "service_tier", "\"default\"" },
		{ "temperature", "null" },
		{ "text", "{\"format\":{\"type\":\"text\"}}" },
		{ "tool_choice", "\"auto\"" }, { "tools", "[]" },
		{ "top_logprobs", "0" }, { "top_p", "null" },
		{ "truncation", "\"disabled\"" }, { "user", "null" },
	};
	struct qwen_text t = { 0 };
	yyjson_val *v;
	size_t i;

	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		v = qwen_parse_get(r->body, row[i].name);
		qwen_parse_write_key(&t, 1, row[i].name, strlen(row[i].name));
		if (v != NULL)
			qwen_json_value(&t, v);
		else
			qwen_text_str(&t, row[i].usual);
	}
	qwen_json_put(&t, ",'store':%s", r->q->items != NULL ? "true" :
	    "false");
	if (t.failed) {
		qwen_text_fini(&t);
		return qwen_oom(&r->refusal->err);
	}
	r->q->echoed = t.s;
	r->q->n_bytes += t.n;
	return 0;
}

/* Parses the tools found in the input; *doc is NULL if there are none. */
static int
open_more(struct qwen_parser *r, struct qwen_text *more, yyjson_doc **doc)
{
	struct qwen_err err;

	*doc = NULL;
	if (more->n == 0)
		return 0;
	qwen_text_str(more, "]");
	if (more->failed)
		return qwen_oom(&r->refusal->err);
	*doc = qwen_json_open(more->s, more->n, &err);
	return *doc != NULL ? 0 : qwen_refuse_error(r->refusal, "input", &err);
}

static int
add_tools(struct qwen_parser *r, struct qwen_text *more, struct qwen_text *t)
{
	yyjson_doc *doc;
	int rc;

	if (open_more(r, more, &doc) < 0)
		return -1;
	rc = qwen_parse_flatten_tools(r, yyjson_doc_get_root(doc), t);
	yyjson_doc_free(doc);
	return rc;
}

/* /compact wants a summary without a thought. */
static void
add_compact(struct qwen_parser *r, struct qwen_text *t)
{
	yyjson_val *more = qwen_parse_get(r->body, "chat_template_kwargs");

	if (qwen_parse_get(r->body, "enable_thinking") == NULL &&
	    qwen_parse_get(more, "enable_thinking") == NULL)
		qwen_json_put(t, ",'enable_thinking':false");
}

int
qwen_parse_responses(struct qwen_parser *r)
{
	struct qwen_text t = { 0 }, more = { 0 };
	int compact = r->q->form == QWEN_FORM_COMPACT, rc;

	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	/* a first field, so that each other field begins with a comma */
	qwen_json_put(&t, "{'add_generation_prompt':true");
	add_others(r, &t);
	rc = qwen_parse_items(r, &t, &more) < 0 ||
	    add_tools(r, &more, &t) < 0 ? -1 : 0;
	if (compact)
		add_compact(r, &t);
	else if (rc == 0)
		rc = add_format(r, &t) < 0 || say(r) < 0 ? -1 : 0;
	qwen_text_str(&t, "}");
	qwen_text_fini(&more);
	if (rc == 0)
		return qwen_parse_replace_body(r, &t);
	qwen_text_fini(&t);
	return -1;
}
