/* SPDX-License-Identifier: ISC */
/*
 * responses_in.c - requests to /v1/responses as chats, in which form they are
 * read.  Items one after another that an assistant's turn is made of become one
 * message.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/json/json.h"
#include "text/request/ask.h"

static const struct qwen_member rows[] = {
	{ "access_programs", QWEN_MEMBER_IDLE, NULL },
	{ "background", QWEN_MEMBER_REFUSED, NULL },
	{ "background_options", QWEN_MEMBER_IDLE, NULL },
	{ "context_management", QWEN_MEMBER_REFUSED, NULL },
	{ "conversation", QWEN_MEMBER_REFUSED, NULL },
	{ "image", QWEN_MEMBER_IDLE, NULL },
	{ "include", QWEN_MEMBER_HEEDED, NULL },
	{ "input", QWEN_MEMBER_HEEDED, NULL },
	{ "instructions", QWEN_MEMBER_HEEDED, NULL },
	{ "max_completion_tokens", QWEN_MEMBER_FOREIGN, "max_output_tokens" },
	{ "max_output_tokens", QWEN_MEMBER_HEEDED, NULL },
	{ "max_tokens", QWEN_MEMBER_FOREIGN, "max_output_tokens" },
	{ "max_tool_calls", QWEN_MEMBER_IDLE, NULL },
	{ "messages", QWEN_MEMBER_FOREIGN, "input" },
	{ "metadata", QWEN_MEMBER_IDLE, NULL },
	{ "moderation", QWEN_MEMBER_REFUSED, NULL },
	{ "parallel_tool_calls", QWEN_MEMBER_PASSED, NULL },
	{ "previous_response_id", QWEN_MEMBER_HEEDED, NULL },
	{ "prompt", QWEN_MEMBER_REFUSED, NULL },
	{ "prompt_cache_key", QWEN_MEMBER_IDLE, NULL },
	{ "prompt_cache_options", QWEN_MEMBER_IDLE, NULL },
	{ "prompt_cache_retention", QWEN_MEMBER_IDLE, NULL },
	{ "reasoning", QWEN_MEMBER_HEEDED, NULL },
	{ "response_format", QWEN_MEMBER_FOREIGN, "text" },
	{ "safety_identifier", QWEN_MEMBER_IDLE, NULL },
	{ "service_tier", QWEN_MEMBER_IDLE, NULL },
	{ "stop", QWEN_MEMBER_PASSED, NULL },
	{ "store", QWEN_MEMBER_HEEDED, NULL },
	{ "stream_options", QWEN_MEMBER_IDLE, NULL },
	{ "text", QWEN_MEMBER_HEEDED, NULL },
	{ "tool_choice", QWEN_MEMBER_HEEDED, NULL },
	{ "tools", QWEN_MEMBER_HEEDED, NULL },
	{ "top_logprobs", QWEN_MEMBER_PASSED, NULL },
	{ "truncation", QWEN_MEMBER_IDLE, NULL },
	{ "user", QWEN_MEMBER_IDLE, NULL },
};
static const struct qwen_members members = {
	rows, sizeof rows / sizeof rows[0]
};

/* What is said otherwise there: ours, and theirs. */
static const char *const names[][2] = {
	{ "messages", "input" }, { "max_completion_tokens", "max_output_tokens" },
	{ "response_format", "text" }, { "reasoning_effort", "reasoning" },
	{ "logprobs", "include" },
};

void
qwen_ask_rename_responses(struct qwen_refusal *no)
{
	qwen_ask_rename(no, names, sizeof names / sizeof names[0]);
}

/* Items as they become messages. */
struct in {
	struct qwen_ask		*r;
	struct qwen_refusal	*no;
	struct qwen_text	 t;	/* the chat */
	struct qwen_text	 lead;	/* what systems say before all others, */
	int			 begun;	/* which have begun */
	struct qwen_text	 thought, text, calls;	/* of a turn */
	size_t			 n_calls;
	int			 turn;	/* there is one */
	size_t			 n;	/* messages that were written */
	size_t			 at;	/* item, from 1 on; 0: of before */
};

static int
bad_item(struct in *in, const char *what)
{
	return bad(in->no, "input", "item %zu: %s", in->at, what);
}

static int
bad_type(struct in *in, const char *kind, yyjson_val *v)
{
	yyjson_val *type = yyjson_obj_get(v, "type");

	return bad(in->no, "input", "item %zu: %s of type %.40s are not "
	    "supported", in->at, kind, yyjson_is_str(type) ?
	    yyjson_get_str(type) : "?");
}

/* ------------------------------------------------------------------- messages */

/* {"role": ... of the next message */
static void
begin(struct in *in, const char *role)
{
	qwen_text_fmt(&in->t, "%s{\"role\":\"%s\"", in->n++ > 0 ? "," : "",
	    role);
}

/* "content" as a text */
static void
add_text(struct qwen_text *t, const char *key, const struct qwen_text *text)
{
	qwen_text_fmt(t, ",\"%s\":", key);
	qwen_text_json(t, text->n > 0 ? text->s : "", text->n);
}

/* What systems said is one message; the turn of the assistant is another. */
static void
flush(struct in *in)
{
	if (!in->begun && in->lead.n > 0) {
		begin(in, "system");
		add_text(&in->t, "content", &in->lead);
		qwen_text_str(&in->t, "}");
	}
	in->begun = 1;
	if (!in->turn)
		return;
	begin(in, "assistant");
	add_text(&in->t, "content", &in->text);
	if (in->thought.n > 0)
		add_text(&in->t, "reasoning_content", &in->thought);
	if (in->n_calls > 0) {
		qwen_text_str(&in->t, ",\"tool_calls\":[");
		qwen_text_add(&in->t, in->calls.s, in->calls.n);
		qwen_text_str(&in->t, "]");
	}
	qwen_text_str(&in->t, "}");
	in->thought.n = in->text.n = in->calls.n = in->n_calls = 0;
	in->turn = 0;
}

/* The text of a part, or NULL with what is wrong. */
static yyjson_val *
part_text(struct in *in, yyjson_val *part)
{
	int refusal = is(part, "refusal");
	yyjson_val *text = text_of(part, refusal ? "refusal" : "text");

	if (!refusal && !is(part, "input_text") && !is(part, "output_text") &&
	    !is(part, "text"))
		bad_type(in, "parts", part);
	else if (text == NULL)
		bad_item(in, "a part has no text");
	else
		return text;
	return NULL;
}

/* The content as one text, with this between parts. */
static int
gather(struct in *in, struct qwen_text *t, yyjson_val *content,
    const char *between)
{
	yyjson_val *v, *text;
	size_t i, n;

	if (yyjson_is_str(content)) {
		qwen_text_add(t, yyjson_get_str(content),
		    yyjson_get_len(content));
		return 0;
	}
	if (!yyjson_is_arr(content))
		return bad_item(in, "the content is neither a text nor a list "
		    "of parts");
	yyjson_arr_foreach(content, i, n, v) {
		if ((text = part_text(in, v)) == NULL)
			return -1;
		qwen_text_str(t, i > 0 ? between : "");
		qwen_text_add(t, yyjson_get_str(text), yyjson_get_len(text));
	}
	return 0;
}

/* "content": a text, or parts of text. */
static int
add_content(struct in *in, yyjson_val *content)
{
	yyjson_val *v, *text;
	size_t i, n;

	qwen_text_str(&in->t, ",\"content\":");
	if (yyjson_is_str(content)) {
		qwen_ask_write(&in->t, content);
		return 0;
	}
	if (!yyjson_is_arr(content))
		return bad_item(in, "the content is neither a text nor a list "
		    "of parts");
	qwen_text_str(&in->t, "[");
	yyjson_arr_foreach(content, i, n, v) {
		if ((text = part_text(in, v)) == NULL)
			return -1;
		qwen_text_str(&in->t, i > 0 ? "," : "");
		qwen_text_str(&in->t, "{\"type\":\"text\",\"text\":");
		qwen_ask_write(&in->t, text);
		qwen_text_str(&in->t, "}");
	}
	qwen_text_str(&in->t, "]");
	return 0;
}

/* A message by itself. */
static int
add_message(struct in *in, const char *role, yyjson_val *content)
{
	flush(in);
	begin(in, role);
	if (add_content(in, content) < 0)
		return -1;
	qwen_text_str(&in->t, "}");
	return 0;
}

static int
add_system(struct in *in, const char *role, yyjson_val *content)
{
	if (in->begun || in->turn)
		return add_message(in, role, content);
	if (in->lead.n > 0)
		qwen_text_str(&in->lead, "\n\n");
	return gather(in, &in->lead, content, "\n");
}

/* ---------------------------------------------------------------------- items */

static int
read_message(struct in *in, yyjson_val *v)
{
	yyjson_val *role = yyjson_obj_get(v, "role");
	yyjson_val *content = qwen_ask_get(v, "content");

	if (yyjson_equals_str(role, "user"))
		return add_message(in, "user", content);
	if (yyjson_equals_str(role, "system") ||
	    yyjson_equals_str(role, "developer"))
		return add_system(in, yyjson_get_str(role), content);
	if (!yyjson_equals_str(role, "assistant"))
		return bad_item(in, "the role is not user, assistant, system or "
		    "developer");
	/* what follows a call is still of the same turn */
	if (in->text.n > 0 && in->n_calls == 0)
		flush(in);
	in->turn = 1;
	return gather(in, &in->text, content, "");
}

static int
read_reasoning(struct in *in, yyjson_val *v)
{
	yyjson_val *part, *text;
	size_t i, n;

	if (in->text.n > 0 || in->n_calls > 0)
		flush(in);
	in->turn = 1;
	yyjson_arr_foreach(qwen_ask_get(v, "content"), i, n, part) {
		if ((text = text_of(part, "text")) == NULL)
			return bad_item(in, "a part has no text");
		qwen_text_add(&in->thought, yyjson_get_str(text),
		    yyjson_get_len(text));
	}
	return 0;
}

static int
read_call(struct in *in, yyjson_val *v)
{
	yyjson_val *id = text_of(v, "call_id"), *name = text_of(v, "name");
	yyjson_val *arguments = text_of(v, "arguments");
	struct qwen_text *t = &in->calls;

	if (id == NULL || name == NULL || yyjson_get_len(name) == 0 ||
	    arguments == NULL)
		return bad_item(in, "a function_call needs call_id, name and "
		    "arguments, which are texts");
	in->turn = 1;
	qwen_text_str(t, in->n_calls++ > 0 ? ",{\"id\":" : "{\"id\":");
	qwen_ask_write(t, id);
	qwen_text_str(t, ",\"type\":\"function\",\"function\":{\"name\":");
	qwen_ask_write(t, name);
	qwen_text_str(t, ",\"arguments\":");
	qwen_ask_write(t, arguments);
	qwen_text_str(t, "}}");
	return 0;
}

static int
read_output(struct in *in, yyjson_val *v)
{
	yyjson_val *id = text_of(v, "call_id");

	if (id == NULL)
		return bad_item(in, "a function_call_output has no call_id");
	flush(in);
	begin(in, "tool");
	qwen_text_str(&in->t, ",\"tool_call_id\":");
	qwen_ask_write(&in->t, id);
	if (add_content(in, qwen_ask_get(v, "output")) < 0)
		return -1;
	qwen_text_str(&in->t, "}");
	return 0;
}

static int
read_item(struct in *in, yyjson_val *v)
{
	if (!yyjson_is_obj(v))
		return bad_item(in, "is no object");
	if (qwen_ask_get(v, "type") == NULL || is(v, "message"))
		return read_message(in, v);
	if (is(v, "function_call"))
		return read_call(in, v);
	if (is(v, "function_call_output"))
		return read_output(in, v);
	if (is(v, "reasoning"))
		return read_reasoning(in, v);
	return bad_type(in, "those", v);
}

static int
read_items(struct in *in, yyjson_val *list)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, v) {
		in->at = i + 1;
		if (read_item(in, v) < 0)
			return -1;
	}
	return 0;
}

/* ----------------------------------------------------------------------- before */

/* What the last response left; *items: with its brackets. */
static int
recall(struct in *in, yyjson_val *id, struct qwen_text *items)
{
	const struct qwen_service *s = in->r->s;
	struct qwen_err err;
	int got;

	if (s->recall == NULL)
		return bad(in->no, "previous_response_id",
		    "previous_response_id is not supported");
	if (!yyjson_is_str(id) || strlen(yyjson_get_str(id)) !=
	    yyjson_get_len(id))
		return wrong(in->no, "previous_response_id", "is no id");
	if ((in->r->q->previous = strdup(yyjson_get_str(id))) == NULL)
		return qwen_oom(&in->no->err);
	got = s->recall(s->recall_arg, yyjson_get_str(id), items, &err);
	if (got < 0)
		return qwen_ask_failed(in->no, "previous_response_id", &err);
	if (items->failed)
		return qwen_oom(&in->no->err);
	return got > 0 ? 0 : qwen_refuse(in->no, "previous_response_not_found",
	    "previous_response_id", "response %.60s is not known",
	    yyjson_get_str(id));
}

/* Items as a list, of those of before and those of this request. */
static int
keep(struct in *in, const struct qwen_text *before, yyjson_val *input)
{
	struct qwen_text t = { 0 };
	yyjson_val *v;
	size_t i, n, k = 0;

	/* without the brackets */
	if (before->n > 2) {
		qwen_text_add(&t, before->s + 1, before->n - 2);
		k++;
	}
	if (yyjson_is_str(input)) {
		qwen_text_str(&t, k > 0 ? "," : "");
		qwen_text_str(&t, "{\"role\":\"user\",\"content\":");
		qwen_ask_write(&t, input);
		qwen_text_str(&t, "}");
	}
	yyjson_arr_foreach(input, i, n, v) {
		qwen_text_str(&t, k++ > 0 ? "," : "");
		qwen_ask_write(&t, v);
	}
	if (t.s == NULL)
		qwen_text_add(&t, "", 0);
	if (t.failed) {
		qwen_text_fini(&t);
		return qwen_oom(&in->no->err);
	}
	in->r->q->items = t.s;
	in->r->q->n_bytes += t.n;
	return 0;
}

static int
read_before(struct in *in, const struct qwen_text *items)
{
	struct qwen_err err;
	yyjson_doc *doc = qwen_json_open(items->s, items->n, &err);
	int rc;

	if (doc == NULL)
		return qwen_ask_failed(in->no, "previous_response_id", &err);
	rc = read_items(in, yyjson_doc_get_root(doc));
	yyjson_doc_free(doc);
	return rc;
}

static int
add_items(struct in *in, yyjson_val *input)
{
	yyjson_val *id = qwen_ask_get(in->r->body, "previous_response_id");
	struct qwen_text before = { 0 };
	int rc = 0;

	if (yyjson_equals_str(id, ""))
		id = NULL;
	if (id != NULL && ((rc = recall(in, id, &before)) < 0 ||
	    (rc = read_before(in, &before)) < 0))
		;
	else if (in->r->s->recall != NULL && !yyjson_is_false(qwen_ask_get(
	    in->r->body, "store")))
		rc = keep(in, &before, input);
	qwen_text_fini(&before);
	if (rc < 0)
		return -1;
	in->at = 1;
	return yyjson_is_str(input) ? add_message(in, "user", input) :
	    read_items(in, input);
}

static int
add_messages(struct in *in)
{
	yyjson_val *about = qwen_ask_get(in->r->body, "instructions");
	yyjson_val *input = qwen_ask_get(in->r->body, "input");

	if (input == NULL)
		return bad(in->no, "input", "input is missing");
	if (!yyjson_is_str(input) && !yyjson_is_arr(input))
		return wrong(in->no, "input", "is neither a text nor a list of "
		    "items");
	if (about != NULL && !yyjson_is_str(about))
		return wrong(in->no, "instructions", "is not a string");
	qwen_text_add(&in->lead, yyjson_get_str(about), yyjson_get_len(about));
	qwen_text_str(&in->t, ",\"messages\":[");
	if (add_items(in, input) < 0)
		return -1;
	flush(in);
	qwen_text_str(&in->t, "]");
	in->t.failed |= in->lead.failed | in->thought.failed |
	    in->text.failed | in->calls.failed;
	return 0;
}

/* ----------------------------------------------------------------------- tools */

/* What is flat there is in an object of its own. */
static int
add_tool(struct in *in, yyjson_val *tool, size_t i)
{
	static const char *const keys[] = { "description", "parameters" };
	yyjson_val *type = yyjson_obj_get(tool, "type"), *v;
	yyjson_val *name = text_of(tool, "name");
	size_t k;

	if (!is(tool, "function"))
		return wrong(in->no, "tools", "tool %zu: those of type %.40s "
		    "are not supported (function only)", i + 1,
		    yyjson_is_str(type) ? yyjson_get_str(type) : "?");
	if (name == NULL || yyjson_get_len(name) == 0)
		return wrong(in->no, "tools", "tool %zu has no name", i + 1);
	qwen_text_str(&in->t, i > 0 ? "," : "");
	qwen_text_str(&in->t, "{\"type\":\"function\",\"function\":{\"name\":");
	qwen_ask_write(&in->t, name);
	for (k = 0; k < 2; k++) {
		if ((v = qwen_ask_get(tool, keys[k])) == NULL)
			continue;
		qwen_ask_write_key(&in->t, 1, keys[k], strlen(keys[k]));
		qwen_ask_write(&in->t, v);
	}
	qwen_text_str(&in->t, "}}");
	return 0;
}

static int
add_tools(struct in *in)
{
	yyjson_val *tools = qwen_ask_get(in->r->body, "tools"), *v;
	yyjson_val *choice = qwen_ask_get(in->r->body, "tool_choice");
	size_t i, n;

	if (tools != NULL && !yyjson_is_arr(tools))
		return wrong(in->no, "tools", "is not a list");
	if (tools != NULL)
		qwen_text_str(&in->t, ",\"tools\":[");
	yyjson_arr_foreach(tools, i, n, v) {
		if (add_tool(in, v, i) < 0)
			return -1;
	}
	qwen_text_str(&in->t, tools != NULL ? "]" : "");
	if (choice == NULL)
		return 0;
	qwen_text_str(&in->t, ",\"tool_choice\":");
	if (is(choice, "function") && text_of(choice, "name") != NULL) {
		qwen_text_str(&in->t, "{\"type\":\"function\",\"function\":{"
		    "\"name\":");
		qwen_ask_write(&in->t, text_of(choice, "name"));
		qwen_text_str(&in->t, "}}");
	} else
		qwen_ask_write(&in->t, choice);
	return 0;
}

/* ------------------------------------------------------------------- the others */

/* The member of a member, as one of the chat. */
static void
add_as(struct in *in, yyjson_val *object, const char *key, const char *as)
{
	yyjson_val *v = qwen_ask_get(object, key);

	if (v == NULL)
		return;
	qwen_ask_write_key(&in->t, 1, as, strlen(as));
	qwen_ask_write(&in->t, v);
}

static int
add_format(struct in *in)
{
	yyjson_val *text = qwen_ask_get(in->r->body, "text");
	yyjson_val *format = qwen_ask_get(text, "format");
	yyjson_val *schema = yyjson_obj_get(format, "schema");

	if (text != NULL && !yyjson_is_obj(text))
		return wrong(in->no, "text", "is not an object");
	if (format != NULL && !is(format, "json_schema")) {
		add_as(in, text, "format", "response_format");
		return 0;
	}
	if (format == NULL)
		return 0;
	if (schema == NULL)
		return wrong(in->no, "text", "there is no schema in the format");
	qwen_text_str(&in->t, ",\"response_format\":{\"type\":\"json_schema\","
	    "\"json_schema\":{\"schema\":");
	qwen_ask_write(&in->t, schema);
	qwen_text_str(&in->t, "}}");
	return 0;
}

static void
add_others(struct in *in)
{
	yyjson_val *body = in->r->body, *key, *v;
	yyjson_val *top = qwen_ask_get(body, "top_logprobs");
	int logprobs = yyjson_is_raw(top) && (yyjson_get_len(top) != 1 ||
	    yyjson_get_raw(top)[0] != '0');
	size_t i, n;

	yyjson_obj_foreach(body, i, n, key, v) {
		if (!qwen_ask_passes(in->r, &members, key))
			continue;
		qwen_ask_write_key(&in->t, 1, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_ask_write(&in->t, v);
	}
	yyjson_arr_foreach(qwen_ask_get(body, "include"), i, n, v)
		logprobs |= yyjson_equals_str(v, "message.output_text.logprobs");
	qwen_text_str(&in->t, logprobs ? ",\"logprobs\":true" : "");
	add_as(in, body, "max_output_tokens", "max_completion_tokens");
	add_as(in, qwen_ask_get(body, "reasoning"), "effort",
	    "reasoning_effort");
}

/* What a response says of its request. */
static int
say(struct in *in)
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
		v = qwen_ask_get(in->r->body, row[i].name);
		qwen_ask_write_key(&t, 1, row[i].name, strlen(row[i].name));
		if (v != NULL)
			qwen_ask_write(&t, v);
		else
			qwen_text_str(&t, row[i].usual);
	}
	qwen_text_fmt(&t, ",\"store\":%s", in->r->q->items != NULL ? "true" :
	    "false");
	if (t.failed) {
		qwen_text_fini(&t);
		return qwen_oom(&in->no->err);
	}
	in->r->q->said = t.s;
	in->r->q->n_bytes += t.n;
	return 0;
}

int
qwen_ask_responses(struct qwen_ask *r)
{
	struct in in = { .r = r, .no = r->no };
	int rc;

	if (qwen_ask_members(r, &members) < 0)
		return -1;
	/* a first member, so that all have a comma before them */
	qwen_text_str(&in.t, "{\"add_generation_prompt\":true");
	add_others(&in);
	rc = add_messages(&in) < 0 || add_tools(&in) < 0 ||
	    add_format(&in) < 0 || say(&in) < 0 ? -1 : 0;
	qwen_text_str(&in.t, "}");
	qwen_text_fini(&in.lead);
	qwen_text_fini(&in.thought);
	qwen_text_fini(&in.text);
	qwen_text_fini(&in.calls);
	if (rc == 0)
		return qwen_ask_rewrite(r, &in.t);
	qwen_text_fini(&in.t);
	return -1;
}
