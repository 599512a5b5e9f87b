/* SPDX-License-Identifier: ISC */
/*
 * responses_in.c - rewrites requests to /v1/responses and /v1/responses/compact
 * as chats.
 */
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

static const struct qwen_fields known_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("include", "input", "instructions",
	    "max_output_tokens", "previous_response_id", "reasoning", "store",
	    "text", "tool_choice", "tools"),
	[QWEN_FIELD_COPIED] = QWEN_WORDS("parallel_tool_calls", "stop",
	    "top_logprobs"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("access_programs",
	    "background_options", "image", "max_tool_calls", "metadata",
	    "prompt_cache_key", "prompt_cache_options",
	    "prompt_cache_retention", "safety_identifier", "service_tier",
	    "stream_options", "truncation", "user"),
	[QWEN_FIELD_REFUSED] = QWEN_WORDS("background", "context_management",
	    "conversation", "moderation", "prompt"),
	[QWEN_FIELD_ALIAS] = QWEN_WORDS("max_completion_tokens",
	    "max_output_tokens", "max_tokens", "max_output_tokens", "messages",
	    "input", "response_format", "text"),
} };

const char *const qwen_responses_names[] = {
	"messages", "input", "max_completion_tokens", "max_output_tokens",
	"response_format", "text", "reasoning_effort", "reasoning",
	"logprobs", "include", NULL
};

static int
add_format(struct qwen_parser *r)
{
	yyjson_val *text = qwen_parse_get(r->body, "text");
	yyjson_val *format = qwen_parse_get(text, "format");
	yyjson_val *schema = yyjson_obj_get(format, "schema");

	if (text != NULL && !yyjson_is_obj(text))
		return qwen_wrong(r, "text", "is not an object");
	if (!qwen_parse_has_type(format, "json_schema"))
		qwen_parse_copy(&r->out, text, "format", "response_format");
	else if (schema == NULL)
		return qwen_wrong(r, "text", "the format has no schema");
	else
		qwen_parse_add_schema(r, schema);
	return 0;
}

static void
add_others(struct qwen_parser *r)
{
	yyjson_val *body = r->body, *v;
	yyjson_val *top = qwen_parse_get(body, "top_logprobs");
	int logprobs = yyjson_is_raw(top) && (yyjson_get_len(top) != 1 ||
	    yyjson_get_raw(top)[0] != '0');
	size_t i, n;

	qwen_parse_copy_known(r, &known_fields);
	yyjson_arr_foreach(qwen_parse_get(body, "include"), i, n, v)
		logprobs |= yyjson_equals_str(v, "message.output_text.logprobs");
	if (logprobs)
		qwen_json_put(&r->out, ",'logprobs':true");
	qwen_parse_copy(&r->out, body, "max_output_tokens",
	    "max_completion_tokens");
	qwen_parse_copy(&r->out, qwen_parse_get(body, "reasoning"), "effort",
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
		qwen_json_put(&t, ",'%s':", row[i].name);
		if (v != NULL)
			qwen_json_value(&t, v);
		else
			qwen_text_str(&t, row[i].usual);
	}
	qwen_json_put(&t, ",'store':%s", r->q->items != NULL ? "true" :
	    "false");
	return qwen_parse_keep_text(r, &t, &r->q->echoed);
}

/* Adds the tools, and those that were found in the input. */
static int
add_tools(struct qwen_parser *r, const struct qwen_text *more)
{
	struct qwen_text list = { 0 };
	yyjson_doc *doc = NULL;
	struct qwen_err err;
	int rc = 0;

	if (more->n > 0) {
		qwen_json_put(&list, "[%s]", more->s);
		doc = list.failed ? NULL : qwen_json_open(list.s, list.n, &err);
		if (doc == NULL)
			rc = list.failed ? qwen_oom(&r->refusal->err) :
			    qwen_refuse_error(r->refusal, "input", &err);
	}
	if (rc == 0)
		rc = qwen_parse_flatten_tools(r, yyjson_doc_get_root(doc));
	yyjson_doc_free(doc);
	qwen_text_fini(&list);
	return rc;
}

/* /compact wants a summary without a thought. */
static void
add_compact(struct qwen_parser *r)
{
	yyjson_val *more = qwen_parse_get(r->body, "chat_template_kwargs");

	if (qwen_parse_get(r->body, "enable_thinking") == NULL &&
	    qwen_parse_get(more, "enable_thinking") == NULL)
		qwen_json_put(&r->out, ",'enable_thinking':false");
}

int
qwen_parse_responses(struct qwen_parser *r)
{
	struct qwen_text more = { 0 };
	int rc;

	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	qwen_json_put(&r->out, "{'add_generation_prompt':true");
	add_others(r);
	rc = qwen_parse_items(r, &more) < 0 || add_tools(r, &more) < 0 ? -1 : 0;
	if (r->q->form == QWEN_FORM_COMPACT)
		add_compact(r);
	else if (rc == 0)
		rc = add_format(r) < 0 || say(r) < 0 ? -1 : 0;
	qwen_text_str(&r->out, "}");
	qwen_text_fini(&more);
	return rc < 0 ? -1 : qwen_parse_replace_body(r);
}
