/* SPDX-License-Identifier: ISC */
/*
 * anthropic_in.c - rewrites requests to /v1/messages as chats of OpenAI's form.
 */
#include <string.h>

#include "text/request/parser.h"
#include "text/request/form.h"

static const struct qwen_fields known_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("container", "context_management",
	    "mcp_servers", "messages", "output_config", "output_format",
	    "stop_sequences", "system", "thinking", "thread", "tool_choice",
	    "tools"),
	[QWEN_FIELD_COPIED] = QWEN_WORDS("max_tokens"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("billing_policy", "cache_control",
	    "diagnostics", "fallback_credit_token", "fallbacks",
	    "inference_geo", "metadata", "service_tier", "speed",
	    "user_profile_id", "workspace_id"),
	[QWEN_FIELD_REFUSED] = QWEN_WORDS("compaction"),
	[QWEN_FIELD_ALIAS] = QWEN_WORDS("max_completion_tokens", "max_tokens",
	    "max_output_tokens", "max_tokens", "response_format",
	    "output_config", "stop", "stop_sequences"),
} };

const char *const qwen_anthropic_names[] = {
	"stop", "stop_sequences", "response_format", "output_config",
	"parallel_tool_calls", "tool_choice", NULL
};

static const struct qwen_parts parts = {
	.item = "message", .part = "block", .param = "messages",
	.item0 = "system", .param0 = "system", .only = " (text only)",
	.texts = QWEN_WORDS("text", "text", "tool_reference", "tool_name"),
	.hosted = QWEN_WORDS("compaction", "container_upload", "fallback",
	    "mcp_tool_listing", "mcp_tool_use", "server_tool_use"),
	.hosted_end = "_tool_result",
};

/* Returns 1 for a summary of earlier messages, made by Anthropic's servers. */
static int
is_summary(yyjson_val *block)
{
	return qwen_parse_has_type(block, "compaction") &&
	    qwen_parse_get_text(block, "content") != NULL;
}

static int
leave_out(struct qwen_parser *r, yyjson_val *block)
{
	return qwen_parse_skip_type(r, "messages", "blocks",
	    yyjson_obj_get(block, "type"));
}

/* ------------------------------------------------------------ user messages */

static int
add_result(struct qwen_parser *r, yyjson_val *block)
{
	yyjson_val *id = qwen_parse_get_text(block, "tool_use_id");

	return id == NULL ? qwen_refuse_item(r, "a tool_result has no "
	    "tool_use_id") : qwen_parse_add_result(r, id,
	    qwen_parse_get(block, "content"));
}

/* Adjacent texts become one message, each tool result a message of its own. */
static int
add_blocks_of_user(struct qwen_parser *r, yyjson_val *content)
{
	int is_open = 0, is_result, rc;
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(content, i, n, v) {
		if (qwen_parse_is_hosted(r, v)) {
			if (leave_out(r, v) < 0)
				return -1;
			continue;
		}
		is_result = qwen_parse_has_type(v, "tool_result");
		if (is_open && is_result)
			qwen_text_str(&r->out, "]}");
		else if (!is_open && !is_result)
			qwen_json_put(&r->out, ",{'role':'user','content':[");
		is_open = !is_result;
		rc = is_result ? add_result(r, v) : qwen_parse_add_part(r, v);
		if (rc < 0)
			return -1;
	}
	qwen_text_str(&r->out, is_open ? "]}" : "");
	return 0;
}

/* ------------------------------------------------------- assistant messages */

/*
 * Adds the strings under a key of all blocks of a type, joined, as the field
 * named as; an empty one only if always is set.
 */
static int
add_texts(struct qwen_parser *r, yyjson_val *content, const char *type,
    const char *as, int always)
{
	struct qwen_text all = { 0 };
	yyjson_val *v, *text;
	size_t i, n;
	int rc = 0;

	yyjson_arr_foreach(content, i, n, v) {
		text = qwen_parse_get_text(v, type);
		if (strcmp(type, "text") == 0 && is_summary(v))
			text = qwen_parse_get_text(v, "content");
		else if (!qwen_parse_has_type(v, type))
			continue;
		if (text == NULL)
			rc = qwen_refuse_item(r, "a block has no text");
		else
			qwen_text_add(&all, yyjson_get_str(text),
			    yyjson_get_len(text));
	}
	if (always || all.n > 0)
		qwen_json_put(&r->out, ",'%s':%pT", as, &all);
	qwen_text_fini(&all);
	return rc;
}

static int
add_call(struct qwen_parser *r, yyjson_val *block)
{
	struct qwen_str name = qwen_parse_str(qwen_parse_get(block, "name"));
	yyjson_val *input = qwen_parse_get(block, "input");

	if (name.len == 0)
		return qwen_refuse_item(r, "a tool_use has no name");
	if (input != NULL && !yyjson_is_obj(input) && !yyjson_is_str(input))
		return qwen_refuse_item(r, "the input of a tool_use is neither "
		    "an object nor a string of JSON");
	qwen_parse_begin_call(&r->out, qwen_parse_get_text(block, "id"), name);
	if (input != NULL)
		qwen_json_value(&r->out, input);
	qwen_text_str(&r->out, input != NULL ? "}}" : "{}}}");
	return 0;
}

static int
add_blocks_of_assistant(struct qwen_parser *r, yyjson_val *content)
{
	size_t i, n, n_calls = 0;
	yyjson_val *v;

	yyjson_arr_foreach(content, i, n, v) {
		n_calls += (size_t)qwen_parse_has_type(v, "tool_use");
		/* only Anthropic's servers can read redacted thoughts */
		if (!qwen_parse_has_type(v, "text") && !qwen_parse_has_type(v,
		    "thinking") && !qwen_parse_has_type(v,
		    "redacted_thinking") && !qwen_parse_has_type(v,
		    "tool_use") && !is_summary(v) &&
		    (qwen_parse_is_hosted(r, v) ? leave_out(r, v) :
		    qwen_refuse_type(r, "block", v)) < 0)
			return -1;
	}
	if (add_texts(r, content, "text", "content", 1) < 0 ||
	    add_texts(r, content, "thinking", "reasoning_content", 0) < 0)
		return -1;
	if (n_calls == 0)
		return 0;
	qwen_json_put(&r->out, ",'tool_calls':[");
	yyjson_arr_foreach(content, i, n, v) {
		if (qwen_parse_has_type(v, "tool_use") && add_call(r, v) < 0)
			return -1;
	}
	qwen_text_str(&r->out, "]");
	return 0;
}

static int
add_assistant(struct qwen_parser *r, yyjson_val *content)
{
	qwen_json_put(&r->out, ",{'role':'assistant'");
	if (add_blocks_of_assistant(r, content) < 0)
		return -1;
	qwen_text_str(&r->out, "}");
	return 0;
}

/* ----------------------------------------------------------------- messages */

static int
add_message(struct qwen_parser *r, yyjson_val *m)
{
	yyjson_val *role = yyjson_obj_get(m, "role");
	yyjson_val *content = qwen_parse_get(m, "content");

	r->at = r->nth + 1;
	if (!yyjson_is_obj(m))
		return qwen_refuse_item(r, "is not an object");
	if (content == NULL)
		return qwen_refuse_item(r, "has no content");
	if (yyjson_is_arr(content) && yyjson_equals_str(role, "user"))
		return add_blocks_of_user(r, content);
	if (yyjson_is_arr(content) && yyjson_equals_str(role, "assistant"))
		return add_assistant(r, content);
	if (yyjson_equals_str(role, "user") ||
	    yyjson_equals_str(role, "assistant") ||
	    yyjson_equals_str(role, "system"))
		return qwen_parse_add_message(r, yyjson_get_str(role), content);
	return qwen_refuse_item(r, "the role is not user, assistant or system");
}

/*
 * Checks a last message of the assistant, which is continued.  As in the API,
 * it must not call a tool, whose result would be missing, nor end in white
 * space.
 */
static int
check_last(struct qwen_parser *r, yyjson_val *m)
{
	yyjson_val *text = qwen_parse_get(m, "content"), *v;
	struct qwen_str s;
	size_t i, n;

	if (!yyjson_equals_str(yyjson_obj_get(m, "role"), "assistant"))
		return 0;
	yyjson_arr_foreach(text, i, n, v) {
		if (qwen_parse_has_type(v, "tool_use"))
			return qwen_refuse_item(r, "is the last one and calls "
			    "a tool: the tool_result is missing");
	}
	if (yyjson_is_arr(text))
		text = qwen_parse_get(yyjson_arr_get_last(text), "text");
	s = qwen_parse_str(text);
	if (s.len > 0 && memchr(" \t\r\n", s.s[s.len - 1], 4) != NULL)
		return qwen_invalid(r, "messages", "messages: final assistant "
		    "content cannot end with trailing whitespace");
	return 0;
}

static int
add_messages(struct qwen_parser *r)
{
	yyjson_val *system = qwen_parse_get(r->body, "system");
	yyjson_val *messages = qwen_parse_get(r->body, "messages");

	if (messages == NULL)
		return qwen_invalid(r, "messages", "messages is missing");
	if (!yyjson_is_arr(messages))
		return qwen_wrong(r, "messages", "is not a list");
	qwen_json_put(&r->out, ",'messages':[");
	if ((system != NULL && qwen_parse_add_message(r, "system", system) <
	    0) || qwen_parse_each(r, "", messages, add_message, "]") < 0)
		return -1;
	return check_last(r, yyjson_arr_get_last(messages));
}

/* ------------------------------------------------------------- other fields */

/*
 * Without the field "thinking", clients expect no thoughts.  A token budget is
 * not enforced.
 */
static int
add_thinking(struct qwen_parser *r)
{
	static const char ours[] = "enable_thinking";
	yyjson_val *v = qwen_parse_get(r->body, "thinking"), *config;
	yyjson_val *more = qwen_parse_get(r->body, "chat_template_kwargs");

	if (v != NULL && !qwen_parse_has_type(v, "enabled") &&
	    !qwen_parse_has_type(v, "adaptive") && !qwen_parse_has_type(v,
	    "disabled"))
		return qwen_wrong(r, "thinking", "the type is not enabled, "
		    "adaptive or disabled");
	if (yyjson_obj_get(r->body, ours) == NULL &&
	    yyjson_obj_get(more, ours) == NULL)
		qwen_json_put(&r->out, ",'%s':%s", ours, v == NULL ||
		    qwen_parse_has_type(v, "disabled") ? "false" : "true");
	config = qwen_parse_get(r->body, "output_config");
	v = qwen_parse_get(config, "effort");
	if (v != NULL && !yyjson_is_str(v))
		return qwen_wrong(r, "output_config", "the effort is not a "
		    "string");
	qwen_parse_copy(&r->out, config, "effort", "reasoning_effort");
	return 0;
}

/* Clients that get this code continue without threads. */
static int
check_thread(struct qwen_parser *r)
{
	return qwen_parse_get(r->body, "thread") == NULL ? 0 :
	    qwen_refuse(r->refusal, QWEN_NO_THREADS, "thread",
	    "thread is not supported");
}

/*
 * The template decides which earlier thoughts the model gets, unless the client
 * wants all of them and the template can keep them.
 */
static int
add_management(struct qwen_parser *r)
{
	static const char ours[] = "preserve_thinking";
	yyjson_val *v = qwen_parse_get(r->body, "context_management"),
	    *edit, *type;
	size_t i, n;
	int all = 0;

	yyjson_arr_foreach(yyjson_obj_get(v, "edits"), i, n, edit) {
		type = yyjson_obj_get(edit, "type");
		if (!yyjson_is_str(type))
			return qwen_wrong(r, "context_management",
			    "an edit has no type");
		if (strncmp(yyjson_get_str(type), "clear_thinking_", 15) != 0) {
			/* other edits only shorten long conversations */
			if (qwen_parse_skip_type(r, "context_management",
			    "edits", type) < 0)
				return -1;
			continue;
		}
		all = yyjson_equals_str(yyjson_obj_get(edit, "keep"), "all");
	}
	if (all && yyjson_obj_get(r->body, ours) == NULL)
		qwen_json_put(&r->out, ",'%s':true", ours);
	return 0;
}

static int
add_format(struct qwen_parser *r)
{
	yyjson_val *config = qwen_parse_get(r->body, "output_config");
	yyjson_val *v = qwen_parse_get(config, "format");
	yyjson_val *schema;

	if (v == NULL)
		v = qwen_parse_get(r->body, "output_format");
	if (v == NULL)
		return 0;
	schema = yyjson_obj_get(v, "schema");
	if (!qwen_parse_has_type(v, "json_schema") || schema == NULL)
		return qwen_wrong(r, "output_config", "the format is not of "
		    "type json_schema, with a schema");
	qwen_parse_add_schema(r, schema);
	return 0;
}

int
qwen_parse_anthropic(struct qwen_parser *r)
{
	r->parts = &parts;
	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	qwen_json_put(&r->out, "{'add_generation_prompt':null");
	qwen_parse_copy_known(r, &known_fields);
	qwen_parse_copy(&r->out, r->body, "stop_sequences", "stop");
	if (check_thread(r) < 0 || add_messages(r) < 0 ||
	    qwen_parse_anthropic_tools(r) < 0 || add_thinking(r) < 0 ||
	    add_management(r) < 0 || add_format(r) < 0)
		return -1;
	qwen_text_str(&r->out, "}");
	return qwen_parse_replace_body(r);
}
