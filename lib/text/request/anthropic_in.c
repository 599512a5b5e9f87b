/* SPDX-License-Identifier: ISC */
/*
 * anthropic_in.c - rewrites requests to /v1/messages as chats of OpenAI's form.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"
#include "text/request/form.h"

static const struct qwen_member rows[] = {
	{ "billing_policy", QWEN_MEMBER_IDLE, NULL },
	{ "cache_control", QWEN_MEMBER_IDLE, NULL },
	{ "compaction", QWEN_MEMBER_REFUSED, NULL },
	{ "container", QWEN_MEMBER_HEEDED, NULL },
	{ "context_management", QWEN_MEMBER_HEEDED, NULL },
	{ "diagnostics", QWEN_MEMBER_IDLE, NULL },
	{ "fallback_credit_token", QWEN_MEMBER_IDLE, NULL },
	{ "fallbacks", QWEN_MEMBER_IDLE, NULL },
	{ "inference_geo", QWEN_MEMBER_IDLE, NULL },
	{ "max_completion_tokens", QWEN_MEMBER_FOREIGN, "max_tokens" },
	{ "max_output_tokens", QWEN_MEMBER_FOREIGN, "max_tokens" },
	{ "max_tokens", QWEN_MEMBER_PASSED, NULL },
	{ "mcp_servers", QWEN_MEMBER_HEEDED, NULL },
	{ "messages", QWEN_MEMBER_HEEDED, NULL },
	{ "metadata", QWEN_MEMBER_IDLE, NULL },
	{ "output_config", QWEN_MEMBER_HEEDED, NULL },
	{ "output_format", QWEN_MEMBER_HEEDED, NULL },
	{ "response_format", QWEN_MEMBER_FOREIGN, "output_config" },
	{ "service_tier", QWEN_MEMBER_IDLE, NULL },
	{ "speed", QWEN_MEMBER_IDLE, NULL },
	{ "stop", QWEN_MEMBER_FOREIGN, "stop_sequences" },
	{ "stop_sequences", QWEN_MEMBER_HEEDED, NULL },
	{ "system", QWEN_MEMBER_HEEDED, NULL },
	{ "thinking", QWEN_MEMBER_HEEDED, NULL },
	{ "thread", QWEN_MEMBER_HEEDED, NULL },
	{ "tool_choice", QWEN_MEMBER_HEEDED, NULL },
	{ "tools", QWEN_MEMBER_HEEDED, NULL },
	{ "user_profile_id", QWEN_MEMBER_IDLE, NULL },
	{ "workspace_id", QWEN_MEMBER_IDLE, NULL },
};
static const struct qwen_members members = {
	rows, sizeof rows / sizeof rows[0]
};

/* Fields with another name in this API: ours, theirs. */
static const char *const names[][2] = {
	{ "stop", "stop_sequences" }, { "response_format", "output_config" },
	{ "parallel_tool_calls", "tool_choice" },
};

void
qwen_ask_rename_anthropic(struct qwen_refusal *no)
{
	qwen_ask_rename(no, names, sizeof names / sizeof names[0]);
}

/* The request while it is rewritten. */
struct in {
	struct qwen_ask		*r;
	struct qwen_refusal	*no;
	struct qwen_text	 t;	/* the chat */
	size_t			 at;	/* number of the message, from 1; 0:
					   "system" */
	size_t			 n;	/* messages written */
};

/* Refuses message in->at; with a type, as an unsupported block. */
static int
bad_message(struct in *in, const char *what, yyjson_val *type)
{
	char where[32] = "system";
	const char *key = in->at > 0 ? "messages" : "system";

	if (in->at > 0)
		snprintf(where, sizeof where, "message %zu", in->at);
	if (yyjson_is_str(type))
		return bad(in->no, key, "%s: blocks of type %.40s are not "
		    "supported%s", where, yyjson_get_str(type), what);
	return bad(in->no, key, "%s: %s", where, what);
}

/* Refuses a block that is not allowed here. */
static int
bad_block(struct in *in, yyjson_val *block)
{
	yyjson_val *type = yyjson_obj_get(block, "type");

	if (qwen_ask_part_hint(block)[0] != '\0')
		return bad_message(in, " (text only); --image-placeholder "
		    "puts a line in their place", type);
	return bad_message(in, yyjson_is_str(type) ? " (text only)" :
	    "a block of the content has no type", type);
}

/* Returns 1 for a summary of earlier messages, made by Anthropic's servers. */
static int
is_summary(yyjson_val *block)
{
	return is(block, "compaction") && text_of(block, "content") != NULL;
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
leave_out(struct in *in, yyjson_val *block)
{
	return qwen_ask_left_out(in->r, "messages", "blocks",
	    yyjson_obj_get(block, "type"));
}

/* {"role": ... of the next message */
static void
begin_message(struct in *in, const char *role)
{
	qwen_text_fmt(&in->t, "%s{\"role\":\"%s\"", in->n++ > 0 ? "," : "",
	    role);
}

/* Adds a text block as a part of the content. */
static int
add_part(struct in *in, yyjson_val *block, size_t i)
{
	int named = is(block, "tool_reference");
	yyjson_val *text = text_of(block, named ? "tool_name" : "text");

	if (!is(block, "text") && !named)
		return bad_block(in, block);
	if (text == NULL)
		return bad_message(in, "a block has no text", NULL);
	qwen_text_str(&in->t, i > 0 ? ",{\"type\":\"text\",\"text\":" :
	    "{\"type\":\"text\",\"text\":");
	qwen_ask_write(&in->t, text);
	qwen_text_str(&in->t, "}");
	return 0;
}

/* Adds "content": a string, or text blocks. */
static int
add_content(struct in *in, yyjson_val *content)
{
	yyjson_val *v;
	size_t i, n;

	qwen_text_str(&in->t, ",\"content\":");
	if (content == NULL || yyjson_is_str(content)) {
		if (content == NULL)
			qwen_text_str(&in->t, "\"\"");
		else
			qwen_ask_write(&in->t, content);
		return 0;
	}
	if (!yyjson_is_arr(content))
		return bad_message(in, "the content is neither a string nor a "
		    "list of blocks", NULL);
	qwen_text_str(&in->t, "[");
	yyjson_arr_foreach(content, i, n, v) {
		if (add_part(in, v, i) < 0)
			return -1;
	}
	qwen_text_str(&in->t, "]");
	return 0;
}

static int
add_system(struct in *in, yyjson_val *content)
{
	begin_message(in, "system");
	if (add_content(in, content) < 0)
		return -1;
	qwen_text_str(&in->t, "}");
	return 0;
}

/* ------------------------------------------------------------ user messages */

static int
add_result(struct in *in, yyjson_val *block)
{
	yyjson_val *id = text_of(block, "tool_use_id");

	if (id == NULL)
		return bad_message(in, "a tool_result has no tool_use_id", NULL);
	begin_message(in, "tool");
	qwen_text_str(&in->t, ",\"tool_call_id\":");
	qwen_ask_write(&in->t, id);
	if (add_content(in, qwen_ask_get(block, "content")) < 0)
		return -1;
	qwen_text_str(&in->t, "}");
	return 0;
}

/* Adjacent texts become one message, each tool result a message of its own. */
static int
add_blocks_of_user(struct in *in, yyjson_val *content)
{
	yyjson_val *v;
	size_t i, n, n_parts = 0;

	yyjson_arr_foreach(content, i, n, v) {
		if (is_hosted(v)) {
			if (leave_out(in, v) < 0)
				return -1;
			continue;
		}
		if (!is(v, "tool_result")) {
			if (n_parts == 0) {
				begin_message(in, "user");
				qwen_text_str(&in->t, ",\"content\":[");
			}
			if (add_part(in, v, n_parts++) < 0)
				return -1;
			continue;
		}
		if (n_parts > 0)
			qwen_text_str(&in->t, "]}");
		n_parts = 0;
		if (add_result(in, v) < 0)
			return -1;
	}
	if (n_parts > 0)
		qwen_text_str(&in->t, "]}");
	return 0;
}

static int
add_user(struct in *in, yyjson_val *content)
{
	if (yyjson_is_arr(content))
		return add_blocks_of_user(in, content);
	begin_message(in, "user");
	if (add_content(in, content) < 0)
		return -1;
	qwen_text_str(&in->t, "}");
	return 0;
}

/* ------------------------------------------------------- assistant messages */

/*
 * Adds the strings under a key of all blocks of a type, joined, as the field
 * named as; an empty one only if always is set.
 */
static int
add_texts(struct in *in, yyjson_val *content, const char *type,
    const char *key, const char *as, int always)
{
	struct qwen_text all = { 0 };
	yyjson_val *v, *text;
	size_t i, n;
	int rc = 0;

	yyjson_arr_foreach(content, i, n, v) {
		text = text_of(v, key);
		if (strcmp(type, "text") == 0 && is_summary(v))
			text = text_of(v, "content");
		else if (!is(v, type))
			continue;
		if (text == NULL)
			rc = bad_message(in, "a block has no text", NULL);
		else
			qwen_text_add(&all, yyjson_get_str(text),
			    yyjson_get_len(text));
	}
	if (always || all.n > 0) {
		qwen_text_fmt(&in->t, ",\"%s\":", as);
		qwen_text_json(&in->t, all.s, all.n);
	}
	in->t.failed |= all.failed;
	qwen_text_fini(&all);
	return rc;
}

static int
add_call(struct in *in, yyjson_val *block, size_t i)
{
	yyjson_val *id = text_of(block, "id"), *name = text_of(block, "name");
	yyjson_val *input = qwen_ask_get(block, "input");

	if (name == NULL || yyjson_get_len(name) == 0)
		return bad_message(in, "a tool_use has no name", NULL);
	if (input != NULL && !yyjson_is_obj(input) && !yyjson_is_str(input))
		return bad_message(in, "the input of a tool_use is neither an "
		    "object nor a string of JSON", NULL);
	qwen_text_str(&in->t, i > 0 ? ",{" : ",\"tool_calls\":[{");
	if (id != NULL) {
		qwen_text_str(&in->t, "\"id\":");
		qwen_ask_write(&in->t, id);
		qwen_text_str(&in->t, ",");
	}
	qwen_text_str(&in->t, "\"type\":\"function\",\"function\":{\"name\":");
	qwen_ask_write(&in->t, name);
	qwen_text_str(&in->t, ",\"arguments\":");
	if (input != NULL)
		qwen_ask_write(&in->t, input);
	else
		qwen_text_str(&in->t, "{}");
	qwen_text_str(&in->t, "}}");
	return 0;
}

static int
add_blocks_of_assistant(struct in *in, yyjson_val *content)
{
	yyjson_val *v;
	size_t i, n, n_calls = 0;

	yyjson_arr_foreach(content, i, n, v) {
		/* only Anthropic's servers can read redacted thoughts */
		if (!is(v, "text") && !is(v, "thinking") &&
		    !is(v, "redacted_thinking") && !is(v, "tool_use") &&
		    !is_summary(v) &&
		    (is_hosted(v) ? leave_out(in, v) : bad_block(in, v)) < 0)
			return -1;
	}
	if (add_texts(in, content, "text", "text", "content", 1) < 0 ||
	    add_texts(in, content, "thinking", "thinking",
	    "reasoning_content", 0) < 0)
		return -1;
	yyjson_arr_foreach(content, i, n, v) {
		if (is(v, "tool_use") && add_call(in, v, n_calls++) < 0)
			return -1;
	}
	qwen_text_str(&in->t, n_calls > 0 ? "]" : "");
	return 0;
}

static int
add_assistant(struct in *in, yyjson_val *content)
{
	begin_message(in, "assistant");
	if ((yyjson_is_arr(content) ? add_blocks_of_assistant :
	    add_content)(in, content) < 0)
		return -1;
	qwen_text_str(&in->t, "}");
	return 0;
}

/* ----------------------------------------------------------------- messages */

static int
add_message(struct in *in, yyjson_val *m)
{
	yyjson_val *role = yyjson_obj_get(m, "role");
	yyjson_val *content = qwen_ask_get(m, "content");

	if (!yyjson_is_obj(m))
		return bad_message(in, "is not an object", NULL);
	if (content == NULL)
		return bad_message(in, "has no content", NULL);
	if (yyjson_equals_str(role, "user"))
		return add_user(in, content);
	if (yyjson_equals_str(role, "assistant"))
		return add_assistant(in, content);
	if (yyjson_equals_str(role, "system"))
		return add_system(in, content);
	return bad_message(in, "the role is not user, assistant or system",
	    NULL);
}

/*
 * Checks a last message of the assistant, which is continued.  As in the API,
 * it must not call a tool, whose result would be missing, nor end in white
 * space.
 */
static int
check_last(struct in *in, yyjson_val *m)
{
	yyjson_val *text = qwen_ask_get(m, "content"), *v;
	const char *s;
	size_t i, n;

	if (!yyjson_equals_str(yyjson_obj_get(m, "role"), "assistant"))
		return 0;
	yyjson_arr_foreach(text, i, n, v) {
		if (is(v, "tool_use"))
			return bad_message(in, "is the last one and calls a "
			    "tool: the tool_result is missing", NULL);
	}
	if (yyjson_is_arr(text))
		text = text_of(yyjson_arr_get_last(text), "text");
	s = yyjson_get_str(text);
	n = yyjson_is_str(text) ? yyjson_get_len(text) : 0;
	if (n > 0 && strchr(" \t\r\n", s[n - 1]) != NULL && s[n - 1] != '\0')
		return bad(in->no, "messages", "messages: final assistant "
		    "content cannot end with trailing whitespace");
	return 0;
}

static int
add_messages(struct in *in)
{
	yyjson_val *system = qwen_ask_get(in->r->body, "system");
	yyjson_val *messages = qwen_ask_get(in->r->body, "messages"), *m;
	size_t i, n;

	if (messages == NULL)
		return bad(in->no, "messages", "messages is missing");
	if (!yyjson_is_arr(messages))
		return wrong(in->no, "messages", "is not a list");
	qwen_text_str(&in->t, ",\"messages\":[");
	if (system != NULL && add_system(in, system) < 0)
		return -1;
	yyjson_arr_foreach(messages, i, n, m) {
		in->at = i + 1;
		if (add_message(in, m) < 0)
			return -1;
	}
	qwen_text_str(&in->t, "]");
	return check_last(in, yyjson_arr_get_last(messages));
}

/* ------------------------------------------------------------- other fields */

/*
 * Without the field "thinking", clients expect no thoughts.  A token budget is
 * not enforced.
 */
static int
add_thinking(struct in *in)
{
	static const char ours[] = "enable_thinking";
	yyjson_val *v = qwen_ask_get(in->r->body, "thinking");
	yyjson_val *more = qwen_ask_get(in->r->body, "chat_template_kwargs");

	if (v != NULL && !is(v, "enabled") && !is(v, "adaptive") &&
	    !is(v, "disabled"))
		return wrong(in->no, "thinking", "the type is not enabled, "
		    "adaptive or disabled");
	if (yyjson_obj_get(in->r->body, ours) == NULL &&
	    yyjson_obj_get(more, ours) == NULL)
		qwen_text_fmt(&in->t, ",\"%s\":%s", ours, v == NULL ||
		    is(v, "disabled") ? "false" : "true");
	v = qwen_ask_get(qwen_ask_get(in->r->body, "output_config"), "effort");
	if (v == NULL)
		return 0;
	if (!yyjson_is_str(v))
		return wrong(in->no, "output_config", "the effort is not a "
		    "string");
	qwen_text_str(&in->t, ",\"reasoning_effort\":");
	qwen_ask_write(&in->t, v);
	return 0;
}

/* Clients that get this code continue without threads. */
static int
check_thread(struct in *in)
{
	return qwen_ask_get(in->r->body, "thread") == NULL ? 0 :
	    qwen_refuse(in->no, QWEN_NO_THREADS, "thread",
	    "thread is not supported");
}

/*
 * The template decides which earlier thoughts the model gets, unless the client
 * wants all of them and the template can keep them.
 */
static int
add_management(struct in *in)
{
	static const char ours[] = "preserve_thinking";
	yyjson_val *v = qwen_ask_get(in->r->body, "context_management"), *edit,
	    *type;
	size_t i, n;
	int all = 0;

	yyjson_arr_foreach(yyjson_obj_get(v, "edits"), i, n, edit) {
		type = yyjson_obj_get(edit, "type");
		if (!yyjson_is_str(type))
			return wrong(in->no, "context_management", "an edit "
			    "has no type");
		if (strncmp(yyjson_get_str(type), "clear_thinking_", 15) != 0) {
			/* other edits only shorten long conversations */
			if (qwen_ask_left_out(in->r, "context_management",
			    "edits", type) < 0)
				return -1;
			continue;
		}
		all = yyjson_equals_str(yyjson_obj_get(edit, "keep"), "all");
	}
	if (all && yyjson_obj_get(in->r->body, ours) == NULL)
		qwen_text_fmt(&in->t, ",\"%s\":true", ours);
	return 0;
}

static int
add_format(struct in *in)
{
	yyjson_val *config = qwen_ask_get(in->r->body, "output_config");
	yyjson_val *v = qwen_ask_get(config, "format");
	yyjson_val *schema;

	if (v == NULL)
		v = qwen_ask_get(in->r->body, "output_format");
	if (v == NULL)
		return 0;
	schema = yyjson_obj_get(v, "schema");
	if (!is(v, "json_schema") || schema == NULL)
		return wrong(in->no, "output_config", "the format is not of "
		    "type json_schema, with a schema");
	qwen_text_str(&in->t, ",\"response_format\":{\"type\":\"json_schema\","
	    "\"json_schema\":{\"schema\":");
	qwen_ask_write(&in->t, schema);
	qwen_text_str(&in->t, "}}");
	return 0;
}

static void
add_others(struct in *in)
{
	yyjson_val *key, *v, *stop = qwen_ask_get(in->r->body, "stop_sequences");
	size_t i, n;

	yyjson_obj_foreach(in->r->body, i, n, key, v) {
		if (!qwen_ask_passes(in->r, &members, key))
			continue;
		qwen_ask_write_key(&in->t, 1, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_ask_write(&in->t, v);
	}
	if (stop != NULL) {
		qwen_text_str(&in->t, ",\"stop\":");
		qwen_ask_write(&in->t, stop);
	}
}

int
qwen_ask_anthropic(struct qwen_ask *r)
{
	struct in in = { .r = r, .no = r->no };

	if (qwen_ask_members(r, &members) < 0)
		return -1;
	/* a first field, so that each other field begins with a comma */
	qwen_text_str(&in.t, "{\"add_generation_prompt\":null");
	add_others(&in);
	if (check_thread(&in) < 0 || add_messages(&in) < 0 ||
	    qwen_ask_anthropic_tools(r, &in.t) < 0 || add_thinking(&in) < 0 ||
	    add_management(&in) < 0 || add_format(&in) < 0) {
		qwen_text_fini(&in.t);
		return -1;
	}
	qwen_text_str(&in.t, "}");
	return qwen_ask_rewrite(r, &in.t);
}
