/* SPDX-License-Identifier: ISC */
/*
 * responses_items.c - the items of /v1/responses as messages of a chat.
 * Adjacent items of one turn of the assistant become one message.
 */
#include <string.h>

#include "base/err.h"
#include "text/json/json.h"
#include "text/request/ask.h"

/* The messages while they are built from items. */
struct in {
	struct qwen_ask		*r;
	struct qwen_refusal	*no;
	struct qwen_text	*t;	/* output: the chat */
	struct qwen_text	 lead;	/* system texts before all other
					   messages */
	int			 begun;	/* lead is written */
	struct qwen_text	 thought, text, calls;	/* of the assistant's
							   turn */
	size_t			 n_calls;
	int			 turn;	/* there is such a turn */
	struct qwen_text	 users;	/* user messages, as items */
	struct qwen_text	*more;	/* tools: a JSON list without "]" */
	struct qwen_kept	 kept;
	size_t			 n;	/* messages written */
	size_t			 n_said;	/* of these, not of the
						   system */
	size_t			 at;	/* number of the item, from 1; 0: an
					   earlier response */
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
	    "supported%s", in->at, kind, yyjson_is_str(type) ?
	    yyjson_get_str(type) : "?", qwen_ask_part_hint(v));
}

/* ----------------------------------------------------------------- messages */

/* {"role": ... of the next message */
static void
begin_message(struct in *in, const char *role)
{
	qwen_text_fmt(in->t, "%s{\"role\":\"%s\"", in->n++ > 0 ? "," : "",
	    role);
	in->n_said += strcmp(role, "system") != 0 &&
	    strcmp(role, "developer") != 0;
}

/* Adds a field with a string. */
static void
add_text(struct qwen_text *t, const char *key, const struct qwen_text *text)
{
	qwen_text_fmt(t, ",\"%s\":", key);
	qwen_text_json(t, text->n > 0 ? text->s : "", text->n);
}

/*
 * Writes the messages not written so far: the system's, the assistant's turn.
 */
static void
flush(struct in *in)
{
	if (!in->begun && in->lead.n > 0) {
		begin_message(in, "system");
		add_text(in->t, "content", &in->lead);
		qwen_text_str(in->t, "}");
	}
	in->begun = 1;
	if (!in->turn)
		return;
	begin_message(in, "assistant");
	add_text(in->t, "content", &in->text);
	if (in->thought.n > 0)
		add_text(in->t, "reasoning_content", &in->thought);
	if (in->n_calls > 0) {
		qwen_text_str(in->t, ",\"tool_calls\":[");
		qwen_text_add(in->t, in->calls.s, in->calls.n);
		qwen_text_str(in->t, "]");
	}
	qwen_text_str(in->t, "}");
	in->thought.n = in->text.n = in->calls.n = in->n_calls = 0;
	in->turn = 0;
}

/* Returns the text of a part, or NULL after a refusal. */
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

/* Appends the text of a content, with between its parts. */
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
		return bad_item(in, "the content is neither a string nor a "
		    "list of parts");
	yyjson_arr_foreach(content, i, n, v) {
		if ((text = part_text(in, v)) == NULL)
			return -1;
		qwen_text_str(t, i > 0 ? between : "");
		qwen_text_add(t, yyjson_get_str(text), yyjson_get_len(text));
	}
	return 0;
}

/* Adds "content": a string, or parts with text. */
static int
add_content(struct in *in, yyjson_val *content)
{
	yyjson_val *v, *text;
	size_t i, n;

	qwen_text_str(in->t, ",\"content\":");
	if (yyjson_is_str(content)) {
		qwen_ask_write(in->t, content);
		return 0;
	}
	if (!yyjson_is_arr(content))
		return bad_item(in, "the content is neither a string nor a "
		    "list of parts");
	qwen_text_str(in->t, "[");
	yyjson_arr_foreach(content, i, n, v) {
		if ((text = part_text(in, v)) == NULL)
			return -1;
		qwen_text_str(in->t, i > 0 ? "," : "");
		qwen_text_str(in->t, "{\"type\":\"text\",\"text\":");
		qwen_ask_write(in->t, text);
		qwen_text_str(in->t, "}");
	}
	qwen_text_str(in->t, "]");
	return 0;
}

/* Adds a separate message. */
static int
add_message(struct in *in, const char *role, yyjson_val *content)
{
	flush(in);
	begin_message(in, role);
	if (add_content(in, content) < 0)
		return -1;
	qwen_text_str(in->t, "}");
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

/* -------------------------------------------------------------------- items */

/* Keeps a user message for the result of /compact, which repeats it. */
static void
add_user_item(struct in *in, yyjson_val *content)
{
	struct qwen_text *t = &in->users;

	qwen_text_fmt(t, "%s{\"type\":\"message\",\"role\":\"user\","
	    "\"status\":\"completed\",\"content\":", t->n > 0 ? "," : "");
	if (yyjson_is_str(content))
		qwen_text_str(t, "[{\"type\":\"input_text\",\"text\":");
	qwen_ask_write(t, content);
	qwen_text_str(t, yyjson_is_str(content) ? "}]}" : "}");
}

static int
read_message(struct in *in, yyjson_val *v)
{
	yyjson_val *role = yyjson_obj_get(v, "role");
	yyjson_val *content = qwen_ask_get(v, "content");

	if (yyjson_equals_str(role, "user")) {
		add_user_item(in, content);
		return add_message(in, "user", content);
	}
	if (yyjson_equals_str(role, "system") ||
	    yyjson_equals_str(role, "developer"))
		return add_system(in, yyjson_get_str(role), content);
	if (!yyjson_equals_str(role, "assistant"))
		return bad_item(in, "the role is not user, assistant, system or "
		    "developer");
	/* a message after a call belongs to the same turn */
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

/* Begins a call, up to its arguments. */
static void
begin_call(struct in *in, yyjson_val *id, yyjson_val *space, yyjson_val *name)
{
	struct qwen_text *t = &in->calls, called = { 0 };

	in->turn = 1;
	qwen_text_str(t, in->n_calls++ > 0 ? ",{\"id\":" : "{\"id\":");
	qwen_ask_write(t, id);
	qwen_text_str(t, ",\"type\":\"function\",\"function\":{\"name\":");
	qwen_ask_join_name(&called, space, name);
	qwen_text_json(t, called.s, called.n);
	qwen_text_str(t, ",\"arguments\":");
	t->failed |= called.failed;
	qwen_text_fini(&called);
}

static int
read_call(struct in *in, yyjson_val *v)
{
	int custom = is(v, "custom_tool_call");
	yyjson_val *id = text_of(v, "call_id"), *name = text_of(v, "name");
	yyjson_val *arguments = qwen_ask_get(v, custom ? "input" :
	    "arguments");

	if (id == NULL || name == NULL || yyjson_get_len(name) == 0)
		return bad_item(in, custom ? "a custom_tool_call needs call_id "
		    "and name, both strings" : "a function_call needs call_id "
		    "and name, both strings");
	if (arguments != NULL && !yyjson_is_str(arguments) &&
	    (custom || !yyjson_is_obj(arguments)))
		return bad_item(in, custom ? "the input of a custom_tool_call "
		    "is not a string" : "the arguments of a function_call are "
		    "neither an object nor a string");
	begin_call(in, id, text_of(v, "namespace"), name);
	qwen_text_str(&in->calls, custom ? "{\"input\":" : "");
	if (arguments != NULL)
		qwen_ask_write(&in->calls, arguments);
	else
		qwen_text_str(&in->calls, custom ? "\"\"" : "{}");
	qwen_text_str(&in->calls, custom ? "}}}" : "}}");
	return 0;
}

/* Begins the message of a tool, up to its content. */
static void
begin_output(struct in *in, yyjson_val *id)
{
	flush(in);
	begin_message(in, "tool");
	qwen_text_str(in->t, ",\"tool_call_id\":");
	qwen_ask_write(in->t, id);
}

static int
read_output(struct in *in, yyjson_val *v)
{
	yyjson_val *id = text_of(v, "call_id");

	if (id == NULL)
		return bad_item(in, is(v, "function_call_output") ?
		    "a function_call_output has no call_id" :
		    "a custom_tool_call_output has no call_id");
	begin_output(in, id);
	if (qwen_ask_get(v, "output") == NULL)
		qwen_text_str(in->t, ",\"content\":\"\"");
	else if (add_content(in, qwen_ask_get(v, "output")) < 0)
		return -1;
	qwen_text_str(in->t, "}");
	return 0;
}

/* ----------------------------------------------------- items of local tools */

/* Tools that clients run; their calls have an object in place of arguments. */
static const struct {
	const char *call, *output, *name, *object;
} local[] = {
	{ "local_shell_call", "local_shell_call_output", "local_shell",
	    "action" },
	{ "shell_call", "shell_call_output", "shell", "action" },
	{ "apply_patch_call", "apply_patch_call_output", "apply_patch",
	    "operation" },
	{ "tool_search_call", "tool_search_output", "tool_search",
	    "arguments" },
};

static int
read_local_call(struct in *in, yyjson_val *v, size_t which)
{
	yyjson_val *id = text_of(v, "call_id");
	yyjson_val *object = qwen_ask_get(v, local[which].object);

	if (id == NULL)
		id = text_of(v, "id");
	if (id == NULL || (!yyjson_is_obj(object) && !yyjson_is_str(object)))
		return bad_item(in, "a call needs call_id and an object that "
		    "describes the call");
	in->turn = 1;
	qwen_text_str(&in->calls, in->n_calls++ > 0 ? ",{\"id\":" :
	    "{\"id\":");
	qwen_ask_write(&in->calls, id);
	qwen_text_fmt(&in->calls, ",\"type\":\"function\",\"function\":{"
	    "\"name\":\"%s\",\"arguments\":", local[which].name);
	qwen_ask_write(&in->calls, object);
	qwen_text_str(&in->calls, "}}");
	return 0;
}

/* Adds the tools of a list, or those that a search found. */
static void
add_more(struct in *in, yyjson_val *tools)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(tools, i, n, v) {
		qwen_text_str(in->more, in->more->n > 0 ? "," : "[");
		qwen_ask_write(in->more, v);
	}
}

/* Adds the output as text: a string unchanged, other values as JSON. */
static int
read_local_output(struct in *in, yyjson_val *v)
{
	int found = is(v, "tool_search_output");
	yyjson_val *id = text_of(v, "call_id");
	yyjson_val *output = qwen_ask_get(v, found ? "tools" : "output");
	struct qwen_text json = { 0 };

	if (id == NULL)
		id = text_of(v, "id");
	if (id == NULL)
		return bad_item(in, "an output has no call_id");
	if (found)
		add_more(in, output);
	if (output == NULL)
		output = qwen_ask_get(v, "status");
	begin_output(in, id);
	qwen_text_str(in->t, ",\"content\":");
	if (yyjson_is_str(output))
		qwen_ask_write(in->t, output);
	else {
		if (output != NULL)
			qwen_ask_write(&json, output);
		qwen_text_json(in->t, json.s, json.n);
	}
	qwen_text_str(in->t, "}");
	in->t->failed |= json.failed;
	qwen_text_fini(&json);
	return 0;
}

/*
 * Finds the row of local[] for a call or an output.  Returns 1, or 0 if there
 * is none.
 */
static int
find_local(yyjson_val *v, size_t *which, int *is_output)
{
	size_t i;

	/* only OpenAI's servers know what they searched */
	if (yyjson_equals_str(yyjson_obj_get(v, "execution"), "server"))
		return 0;
	for (i = 0; i < sizeof local / sizeof local[0]; i++) {
		*which = i;
		*is_output = is(v, local[i].output);
		if (*is_output || is(v, local[i].call))
			return 1;
	}
	return 0;
}

/*
 * Returns 1 for an item of a tool that only OpenAI's servers have, or that only
 * they can read.  The conversation can be understood without it.
 */
static int
is_hosted(yyjson_val *v)
{
	static const char *const row[] = { "compaction_trigger",
	    "computer_call_output", "configuration_update",
	    "context_compaction", "ghost_snapshot", "mcp_approval_request",
	    "mcp_approval_response", "mcp_list_tools", "program",
	    "program_output", "tool_search_output" };
	const char *type = yyjson_get_str(yyjson_obj_get(v, "type"));
	size_t i, n = type != NULL ? strlen(type) : 0;

	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		if (is(v, row[i]))
			return 1;
	}
	return n > 5 && strcmp(type + n - 5, "_call") == 0;
}

/* --------------------------------------------------------- earlier messages */

/*
 * Adds a summary made here, as a user message; leaves out others, which cannot
 * be read.
 */
static int
read_compaction(struct in *in, yyjson_val *v)
{
	yyjson_val *text = text_of(v, "encrypted_content");
	const char *s = yyjson_get_str(text);
	size_t n = strlen(QWEN_COMPACTION);

	if (text == NULL || yyjson_get_len(text) < n ||
	    memcmp(s, QWEN_COMPACTION, n) != 0)
		return qwen_ask_left_out(in->r, "input", "items",
		    yyjson_obj_get(v, "type"));
	flush(in);
	begin_message(in, "user");
	qwen_text_str(in->t, ",\"content\":");
	qwen_text_json(in->t, s + n, yyjson_get_len(text) - n);
	qwen_text_str(in->t, "}");
	return 0;
}

static int read_item(struct in *in, yyjson_val *v);

static int
read_reference(struct in *in, yyjson_val *v)
{
	const char *id = yyjson_get_str(text_of(v, "id"));
	yyjson_val *item;

	if (id == NULL)
		return bad_item(in, "an item_reference has no id");
	item = qwen_ask_kept_item(in->r, &in->kept, id);
	if (in->no->err.code != 0)
		return -1;
	return item != NULL ? read_item(in, item) : qwen_refuse(in->no,
	    "item_not_found", "input", "item %zu: %.60s is not known here; a "
	    "response is kept if its request had no \"store\": false, until "
	    "the server ends: send the item itself", in->at, id);
}

static int
read_item(struct in *in, yyjson_val *v)
{
	yyjson_val *type = qwen_ask_get(v, "type");
	size_t which;
	int is_output;

	if (!yyjson_is_obj(v))
		return bad_item(in, "is not an object");
	if (is(v, "item_reference") || (type == NULL &&
	    yyjson_obj_get(v, "role") == NULL && text_of(v, "id") != NULL))
		return read_reference(in, v);
	if (type == NULL || is(v, "message"))
		return read_message(in, v);
	if (is(v, "function_call") || is(v, "custom_tool_call"))
		return read_call(in, v);
	if (is(v, "function_call_output") || is(v, "custom_tool_call_output"))
		return read_output(in, v);
	if (is(v, "reasoning"))
		return read_reasoning(in, v);
	if (is(v, "compaction") || is(v, "compaction_summary"))
		return read_compaction(in, v);
	if (is(v, "additional_tools")) {
		add_more(in, qwen_ask_get(v, "tools"));
		return 0;
	}
	if (find_local(v, &which, &is_output))
		return is_output ? read_local_output(in, v) :
		    read_local_call(in, v, which);
	return is_hosted(v) ? qwen_ask_left_out(in->r, "input", "items",
	    type) : bad_type(in, "items", v);
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
	if (id != NULL && ((rc = qwen_ask_recall(in->r, id, &before)) < 0 ||
	    (rc = read_before(in, &before)) < 0))
		;
	else if (in->r->s->recall != NULL && !yyjson_is_false(qwen_ask_get(
	    in->r->body, "store")))
		rc = qwen_ask_keep(in->r, &before, input);
	qwen_text_fini(&before);
	if (rc < 0)
		return -1;
	in->at = 1;
	if (!yyjson_is_str(input))
		return read_items(in, input);
	add_user_item(in, input);
	return add_message(in, "user", input);
}

/*
 * Adds the last user message: a request for a summary, or, without any input,
 * an empty one.
 */
static void
add_last(struct in *in)
{
	static const char summarize[] = "Summarize this conversation for an "
	    "assistant that continues it without having seen it. Keep: what "
	    "the user wants, what was decided and done, results and facts that "
	    "are still needed (names of files, commands, values, errors), and "
	    "what is left to do. Answer with the summary only.";
	int compact = in->r->q->form == QWEN_FORM_COMPACT;

	/* clients test a server without any input */
	if (!compact && in->n_said > 0)
		return;
	begin_message(in, "user");
	qwen_text_fmt(in->t, ",\"content\":\"%s\"}", compact ? summarize :
	    "");
}

static int
add_messages(struct in *in)
{
	yyjson_val *about = qwen_ask_get(in->r->body, "instructions");
	yyjson_val *input = qwen_ask_get(in->r->body, "input");

	if (input == NULL && qwen_ask_get(in->r->body,
	    "previous_response_id") == NULL)
		return bad(in->no, "input", "input is missing");
	if (input != NULL && !yyjson_is_str(input) && !yyjson_is_arr(input))
		return wrong(in->no, "input", "is neither a string nor a list "
		    "of items");
	if (about != NULL && !yyjson_is_str(about))
		return wrong(in->no, "instructions", "is not a string");
	qwen_text_add(&in->lead, yyjson_get_str(about), yyjson_get_len(about));
	qwen_text_str(in->t, ",\"messages\":[");
	if (add_items(in, input) < 0)
		return -1;
	flush(in);
	add_last(in);
	qwen_text_str(in->t, "]");
	in->t->failed |= in->lead.failed | in->thought.failed |
	    in->text.failed | in->calls.failed | in->users.failed |
	    in->more->failed;
	return 0;
}

int
qwen_ask_items(struct qwen_ask *r, struct qwen_text *t,
    struct qwen_text *more)
{
	struct in in = { .r = r, .no = r->no, .t = t, .more = more };
	int rc = add_messages(&in);

	if (rc == 0 && r->q->form == QWEN_FORM_COMPACT && !t->failed) {
		qwen_text_str(&in.users, "");
		r->q->said = in.users.s;
		r->q->n_bytes += in.users.n;
		in.users = (struct qwen_text){ 0 };
	}
	yyjson_doc_free(in.kept.doc);
	qwen_text_fini(&in.lead);
	qwen_text_fini(&in.thought);
	qwen_text_fini(&in.text);
	qwen_text_fini(&in.calls);
	qwen_text_fini(&in.users);
	return rc;
}
