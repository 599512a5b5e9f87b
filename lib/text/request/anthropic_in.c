/* SPDX-License-Identifier: ISC */
/*
 * anthropic_in.c - rewrites requests to /v1/messages as chats of OpenAI's form.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/request/form.h"

static const struct qwen_field rows[] = {
	{ "billing_policy", QWEN_FIELD_IGNORED, NULL },
	{ "cache_control", QWEN_FIELD_IGNORED, NULL },
	{ "compaction", QWEN_FIELD_REFUSED, NULL },
	{ "container", QWEN_FIELD_USED, NULL },
	{ "context_management", QWEN_FIELD_USED, NULL },
	{ "diagnostics", QWEN_FIELD_IGNORED, NULL },
	{ "fallback_credit_token", QWEN_FIELD_IGNORED, NULL },
	{ "fallbacks", QWEN_FIELD_IGNORED, NULL },
	{ "inference_geo", QWEN_FIELD_IGNORED, NULL },
	{ "max_completion_tokens", QWEN_FIELD_ALIAS, "max_tokens" },
	{ "max_output_tokens", QWEN_FIELD_ALIAS, "max_tokens" },
	{ "max_tokens", QWEN_FIELD_COPIED, NULL },
	{ "mcp_servers", QWEN_FIELD_USED, NULL },
	{ "messages", QWEN_FIELD_USED, NULL },
	{ "metadata", QWEN_FIELD_IGNORED, NULL },
	{ "output_config", QWEN_FIELD_USED, NULL },
	{ "output_format", QWEN_FIELD_USED, NULL },
	{ "response_format", QWEN_FIELD_ALIAS, "output_config" },
	{ "service_tier", QWEN_FIELD_IGNORED, NULL },
	{ "speed", QWEN_FIELD_IGNORED, NULL },
	{ "stop", QWEN_FIELD_ALIAS, "stop_sequences" },
	{ "stop_sequences", QWEN_FIELD_USED, NULL },
	{ "system", QWEN_FIELD_USED, NULL },
	{ "thinking", QWEN_FIELD_USED, NULL },
	{ "thread", QWEN_FIELD_USED, NULL },
	{ "tool_choice", QWEN_FIELD_USED, NULL },
	{ "tools", QWEN_FIELD_USED, NULL },
	{ "user_profile_id", QWEN_FIELD_IGNORED, NULL },
	{ "workspace_id", QWEN_FIELD_IGNORED, NULL },
};
static const struct qwen_fields known_fields = {
	rows, sizeof rows / sizeof rows[0]
};

/* Fields with another name in this API: ours, theirs. */
static const char *const names[][2] = {
	{ "stop", "stop_sequences" }, { "response_format", "output_config" },
	{ "parallel_tool_calls", "tool_choice" },
};

void
qwen_refusal_rename_anthropic(struct qwen_refusal *refusal)
{
	qwen_refusal_rename(refusal, names, sizeof names / sizeof names[0]);
}

/* The request while it is rewritten. */
struct rewriter {
	struct qwen_parser		*r;
	struct qwen_refusal	*refusal;
	struct qwen_text	 t;	/* the chat */
	size_t			 at;	/* number of the message, from 1; 0:
					   "system" */
	size_t			 n;	/* messages written */
};

/* Refuses message rw->at; with a type, as an unsupported block. */
static int
bad_message(struct rewriter *rw, const char *what, yyjson_val *type)
{
	char where[32] = "system";
	const char *key = rw->at > 0 ? "messages" : "system";

	if (rw->at > 0)
		snprintf(where, sizeof where, "message %zu", rw->at);
	if (yyjson_is_str(type))
		return qwen_refuse_invalid(rw->refusal, key, "%s: blocks of "
		    "type %.40s are not supported%s", where,
		    yyjson_get_str(type), what);
	return qwen_refuse_invalid(rw->refusal, key, "%s: %s", where, what);
}

/* Refuses a block that is not allowed here. */
static int
bad_block(struct rewriter *rw, yyjson_val *block)
{
	yyjson_val *type = yyjson_obj_get(block, "type");

	if (qwen_parse_part_hint(block)[0] != '\0')
		return bad_message(rw, " (text only); --image-placeholder "
		    "puts a line in their place", type);
	return bad_message(rw, yyjson_is_str(type) ? " (text only)" :
	    "a block of the content has no type", type);
}

/* Returns 1 for a summary of earlier messages, made by Anthropic's servers. */
static int
is_summary(yyjson_val *block)
{
	return qwen_parse_has_type(block, "compaction") &&
	    qwen_parse_get_text(block, "content") != NULL;
}

/*
 * Returns 1 for a block of a tool that only Anthropic's servers have, or that
 * only they can read.  The conversation can be understood without it.
 */
static int
is_hosted(yyjson_val *block)
{
	static const char *const row[] = { "compaction", "container_upload",
	    "fallback", "mcp_tool_listing", "mcp_tool_use", "server_tool_use" };
	static const char end[] = "_tool_result";
	yyjson_val *type = yyjson_obj_get(block, "type");
	size_t i, n = yyjson_get_len(type), n_end = sizeof end - 1;

	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		if (yyjson_equals_str(type, row[i]))
			return 1;
	}
	return yyjson_is_str(type) && n > n_end &&
	    memcmp(yyjson_get_str(type) + n - n_end, end, n_end) == 0;
}

static int
leave_out(struct rewriter *rw, yyjson_val *block)
{
	return qwen_parse_skip_type(rw->r, "messages", "blocks",
	    yyjson_obj_get(block, "type"));
}

/* {"role": ... of the next message */
static void
begin_message(struct rewriter *rw, const char *role)
{
	qwen_json_put(&rw->t, "%s{'role':'%s'", rw->n++ > 0 ? "," : "", role);
}

/* Adds a text block as a part of the content. */
static int
add_part(struct rewriter *rw, yyjson_val *block, size_t i)
{
	int named = qwen_parse_has_type(block, "tool_reference");
	yyjson_val *text = qwen_parse_get_text(block, named ? "tool_name" :
	    "text");

	if (!qwen_parse_has_type(block, "text") && !named)
		return bad_block(rw, block);
	if (text == NULL)
		return bad_message(rw, "a block has no text", NULL);
	qwen_json_put(&rw->t, "%s%p}", i > 0 ? ",{\"type\":\"text\",\"text\":" :
	    "{\"type\":\"text\",\"text\":", text);
	return 0;
}

/* Adds "content": a string, or text blocks. */
static int
add_content(struct rewriter *rw, yyjson_val *content)
{
	yyjson_val *v;
	size_t i, n;

	qwen_json_put(&rw->t, ",'content':");
	if (content == NULL || yyjson_is_str(content)) {
		if (content == NULL)
			qwen_json_put(&rw->t, "''");
		else
			qwen_json_value(&rw->t, content);
		return 0;
	}
	if (!yyjson_is_arr(content))
		return bad_message(rw, "the content is neither a string nor a "
		    "list of blocks", NULL);
	qwen_text_str(&rw->t, "[");
	yyjson_arr_foreach(content, i, n, v) {
		if (add_part(rw, v, i) < 0)
			return -1;
	}
	qwen_text_str(&rw->t, "]");
	return 0;
}

static int
add_system(struct rewriter *rw, yyjson_val *content)
{
	begin_message(rw, "system");
	if (add_content(rw, content) < 0)
		return -1;
	qwen_text_str(&rw->t, "}");
	return 0;
}

/* ------------------------------------------------------------ user messages */

static int
add_result(struct rewriter *rw, yyjson_val *block)
{
	yyjson_val *id = qwen_parse_get_text(block, "tool_use_id");

	if (id == NULL)
		return bad_message(rw, "a tool_result has no tool_use_id",
		    NULL);
	begin_message(rw, "tool");
	qwen_json_put(&rw->t, ",'tool_call_id':%p", id);
	if (add_content(rw, qwen_parse_get(block, "content")) < 0)
		return -1;
	qwen_text_str(&rw->t, "}");
	return 0;
}

/* Adjacent texts become one message, each tool result a message of its own. */
static int
add_blocks_of_user(struct rewriter *rw, yyjson_val *content)
{
	yyjson_val *v;
	size_t i, n, n_parts = 0;

	yyjson_arr_foreach(content, i, n, v) {
		if (is_hosted(v)) {
			if (leave_out(rw, v) < 0)
				return -1;
			continue;
		}
		if (!qwen_parse_has_type(v, "tool_result")) {
			if (n_parts == 0) {
				begin_message(rw, "user");
				qwen_json_put(&rw->t, ",'content':[");
			}
			if (add_part(rw, v, n_parts++) < 0)
				return -1;
			continue;
		}
		if (n_parts > 0)
			qwen_text_str(&rw->t, "]}");
		n_parts = 0;
		if (add_result(rw, v) < 0)
			return -1;
	}
	if (n_parts > 0)
		qwen_text_str(&rw->t, "]}");
	return 0;
}

static int
add_user(struct rewriter *rw, yyjson_val *content)
{
	if (yyjson_is_arr(content))
		return add_blocks_of_user(rw, content);
	begin_message(rw, "user");
	if (add_content(rw, content) < 0)
		return -1;
	qwen_text_str(&rw->t, "}");
	return 0;
}

/* ------------------------------------------------------- assistant messages */

/*
 * Adds the strings under a key of all blocks of a type, joined, as the field
 * named as; an empty one only if always is set.
 */
static int
add_texts(struct rewriter *rw, yyjson_val *content, const char *type,
    const char *key, const char *as, int always)
{
	struct qwen_text all = { 0 };
	yyjson_val *v, *text;
	size_t i, n;
	int rc = 0;

	yyjson_arr_foreach(content, i, n, v) {
		text = qwen_parse_get_text(v, key);
		if (strcmp(type, "text") == 0 && is_summary(v))
			text = qwen_parse_get_text(v, "content");
		else if (!qwen_parse_has_type(v, type))
			continue;
		if (text == NULL)
			rc = bad_message(rw, "a block has no text", NULL);
		else
			qwen_text_add(&all, yyjson_get_str(text),
			    yyjson_get_len(text));
	}
	if (always || all.n > 0) {
		qwen_json_put(&rw->t, ",'%s':%pT", as, &all);
	}
	rw->t.failed |= all.failed;
	qwen_text_fini(&all);
	return rc;
}

static int
add_call(struct rewriter *rw, yyjson_val *block, size_t i)
{
	yyjson_val *id = qwen_parse_get_text(block, "id"), *name =
	    qwen_parse_get_text(block, "name");
	yyjson_val *input = qwen_parse_get(block, "input");

	if (name == NULL || yyjson_get_len(name) == 0)
		return bad_message(rw, "a tool_use has no name", NULL);
	if (input != NULL && !yyjson_is_obj(input) && !yyjson_is_str(input))
		return bad_message(rw, "the input of a tool_use is neither an "
		    "object nor a string of JSON", NULL);
	qwen_text_str(&rw->t, i > 0 ? ",{" : ",\"tool_calls\":[{");
	if (id != NULL) {
		qwen_json_put(&rw->t, "'id':%p,", id);
	}
	qwen_json_put(&rw->t, "'type':'function','function':{'name':%p,"
	    "'arguments':", name);
	if (input != NULL)
		qwen_json_value(&rw->t, input);
	else
		qwen_text_str(&rw->t, "{}");
	qwen_text_str(&rw->t, "}}");
	return 0;
}

static int
add_blocks_of_assistant(struct rewriter *rw, yyjson_val *content)
{
	yyjson_val *v;
	size_t i, n, n_calls = 0;

	yyjson_arr_foreach(content, i, n, v) {
		/* only Anthropic's servers can read redacted thoughts */
		if (!qwen_parse_has_type(v, "text") && !qwen_parse_has_type(v,
		    "thinking") && !qwen_parse_has_type(v,
		    "redacted_thinking") && !qwen_parse_has_type(v,
		    "tool_use") && !is_summary(v) && (is_hosted(v) ?
		    leave_out(rw, v) : bad_block(rw, v)) < 0)
			return -1;
	}
	if (add_texts(rw, content, "text", "text", "content", 1) < 0 ||
	    add_texts(rw, content, "thinking", "thinking",
	    "reasoning_content", 0) < 0)
		return -1;
	yyjson_arr_foreach(content, i, n, v) {
		if (qwen_parse_has_type(v, "tool_use") && add_call(rw, v,
		    n_calls++) < 0)
			return -1;
	}
	qwen_text_str(&rw->t, n_calls > 0 ? "]" : "");
	return 0;
}

static int
add_assistant(struct rewriter *rw, yyjson_val *content)
{
	begin_message(rw, "assistant");
	if ((yyjson_is_arr(content) ? add_blocks_of_assistant :
	    add_content)(rw, content) < 0)
		return -1;
	qwen_text_str(&rw->t, "}");
	return 0;
}

/* ----------------------------------------------------------------- messages */

static int
add_message(struct rewriter *rw, yyjson_val *m)
{
	yyjson_val *role = yyjson_obj_get(m, "role");
	yyjson_val *content = qwen_parse_get(m, "content");

	if (!yyjson_is_obj(m))
		return bad_message(rw, "is not an object", NULL);
	if (content == NULL)
		return bad_message(rw, "has no content", NULL);
	if (yyjson_equals_str(role, "user"))
		return add_user(rw, content);
	if (yyjson_equals_str(role, "assistant"))
		return add_assistant(rw, content);
	if (yyjson_equals_str(role, "system"))
		return add_system(rw, content);
	return bad_message(rw, "the role is not user, assistant or system",
	    NULL);
}

/*
 * Checks a last message of the assistant, which is continued.  As in the API,
 * it must not call a tool, whose result would be missing, nor end in white
 * space.
 */
static int
check_last(struct rewriter *rw, yyjson_val *m)
{
	yyjson_val *text = qwen_parse_get(m, "content"), *v;
	const char *s;
	size_t i, n;

	if (!yyjson_equals_str(yyjson_obj_get(m, "role"), "assistant"))
		return 0;
	yyjson_arr_foreach(text, i, n, v) {
		if (qwen_parse_has_type(v, "tool_use"))
			return bad_message(rw, "is the last one and calls a "
			    "tool: the tool_result is missing", NULL);
	}
	if (yyjson_is_arr(text))
		text = qwen_parse_get_text(yyjson_arr_get_last(text), "text");
	s = yyjson_get_str(text);
	n = yyjson_is_str(text) ? yyjson_get_len(text) : 0;
	if (n > 0 && strchr(" \t\r\n", s[n - 1]) != NULL && s[n - 1] != '\0')
		return qwen_refuse_invalid(rw->refusal, "messages", "messages: "
		    "final assistant content cannot end with trailing "
		    "whitespace");
	return 0;
}

static int
add_messages(struct rewriter *rw)
{
	yyjson_val *system = qwen_parse_get(rw->r->body, "system");
	yyjson_val *messages = qwen_parse_get(rw->r->body, "messages"), *m;
	size_t i, n;

	if (messages == NULL)
		return qwen_refuse_invalid(rw->refusal, "messages", "messages "
		    "is missing");
	if (!yyjson_is_arr(messages))
		return qwen_refuse_field(rw->refusal, "messages", "is not a "
		    "list");
	qwen_json_put(&rw->t, ",'messages':[");
	if (system != NULL && add_system(rw, system) < 0)
		return -1;
	yyjson_arr_foreach(messages, i, n, m) {
		rw->at = i + 1;
		if (add_message(rw, m) < 0)
			return -1;
	}
	qwen_text_str(&rw->t, "]");
	return check_last(rw, yyjson_arr_get_last(messages));
}

/* ------------------------------------------------------------- other fields */

/*
 * Without the field "thinking", clients expect no thoughts.  A token budget is
 * not enforced.
 */
static int
add_thinking(struct rewriter *rw)
{
	static const char ours[] = "enable_thinking";
	yyjson_val *v = qwen_parse_get(rw->r->body, "thinking");
	yyjson_val *more = qwen_parse_get(rw->r->body, "chat_template_kwargs");

	if (v != NULL && !qwen_parse_has_type(v, "enabled") &&
	    !qwen_parse_has_type(v, "adaptive") && !qwen_parse_has_type(v,
	    "disabled"))
		return qwen_refuse_field(rw->refusal, "thinking", "the type is "
		    "not enabled, adaptive or disabled");
	if (yyjson_obj_get(rw->r->body, ours) == NULL &&
	    yyjson_obj_get(more, ours) == NULL)
		qwen_json_put(&rw->t, ",'%s':%s", ours, v == NULL ||
		    qwen_parse_has_type(v, "disabled") ? "false" : "true");
	v = qwen_parse_get(qwen_parse_get(rw->r->body, "output_config"),
	    "effort");
	if (v == NULL)
		return 0;
	if (!yyjson_is_str(v))
		return qwen_refuse_field(rw->refusal, "output_config", "the "
		    "effort is not a string");
	qwen_json_put(&rw->t, ",'reasoning_effort':%p", v);
	return 0;
}

/* Clients that get this code continue without threads. */
static int
check_thread(struct rewriter *rw)
{
	return qwen_parse_get(rw->r->body, "thread") == NULL ? 0 :
	    qwen_refuse(rw->refusal, QWEN_NO_THREADS, "thread",
	    "thread is not supported");
}

/*
 * The template decides which earlier thoughts the model gets, unless the client
 * wants all of them and the template can keep them.
 */
static int
add_management(struct rewriter *rw)
{
	static const char ours[] = "preserve_thinking";
	yyjson_val *v = qwen_parse_get(rw->r->body, "context_management"),
	    *edit, *type;
	size_t i, n;
	int all = 0;

	yyjson_arr_foreach(yyjson_obj_get(v, "edits"), i, n, edit) {
		type = yyjson_obj_get(edit, "type");
		if (!yyjson_is_str(type))
			return qwen_refuse_field(rw->refusal,
			    "context_management", "an edit has no type");
		if (strncmp(yyjson_get_str(type), "clear_thinking_", 15) != 0) {
			/* other edits only shorten long conversations */
			if (qwen_parse_skip_type(rw->r, "context_management",
			    "edits", type) < 0)
				return -1;
			continue;
		}
		all = yyjson_equals_str(yyjson_obj_get(edit, "keep"), "all");
	}
	if (all && yyjson_obj_get(rw->r->body, ours) == NULL)
		qwen_json_put(&rw->t, ",'%s':true", ours);
	return 0;
}

static int
add_format(struct rewriter *rw)
{
	yyjson_val *config = qwen_parse_get(rw->r->body, "output_config");
	yyjson_val *v = qwen_parse_get(config, "format");
	yyjson_val *schema;

	if (v == NULL)
		v = qwen_parse_get(rw->r->body, "output_format");
	if (v == NULL)
		return 0;
	schema = yyjson_obj_get(v, "schema");
	if (!qwen_parse_has_type(v, "json_schema") || schema == NULL)
		return qwen_refuse_field(rw->refusal, "output_config", "the "
		    "format is not of type json_schema, with a schema");
	qwen_json_put(&rw->t, ",'response_format':{'type':'json_schema',"
	    "'json_schema':{'schema':%p}}", schema);
	return 0;
}

static void
add_others(struct rewriter *rw)
{
	yyjson_val *key, *v, *stop = qwen_parse_get(rw->r->body,
	    "stop_sequences");
	size_t i, n;

	yyjson_obj_foreach(rw->r->body, i, n, key, v) {
		if (!qwen_parse_is_copied(rw->r, &known_fields, key))
			continue;
		qwen_parse_write_key(&rw->t, 1, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_json_value(&rw->t, v);
	}
	if (stop != NULL) {
		qwen_json_put(&rw->t, ",'stop':%p", stop);
	}
}

int
qwen_parse_anthropic(struct qwen_parser *r)
{
	struct rewriter rw = { .r = r, .refusal = r->refusal };

	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	/* a first field, so that each other field begins with a comma */
	qwen_json_put(&rw.t, "{'add_generation_prompt':null");
	add_others(&rw);
	if (check_thread(&rw) < 0 || add_messages(&rw) < 0 ||
	    qwen_parse_anthropic_tools(r, &rw.t) < 0 || add_thinking(&rw) < 0 ||
	    add_management(&rw) < 0 || add_format(&rw) < 0) {
		qwen_text_fini(&rw.t);
		return -1;
	}
	qwen_text_str(&rw.t, "}");
	return qwen_parse_replace_body(r, &rw.t);
}
