/* SPDX-License-Identifier: ISC */
/*
 * responses_items.c - the items of /v1/responses as messages of a chat.
 * Adjacent items of one turn of the assistant become one message.
 */
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

/* The messages while they are built from items. */
struct rewriter {
	struct qwen_parser		*r;
	struct qwen_refusal	*refusal;
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
	struct qwen_saved_items	 kept;
	size_t			 n;	/* messages written */
	size_t			 n_said;	/* of these, not of the
						   system */
	size_t			 at;	/* number of the item, from 1; 0: an
					   earlier response */
};

static int
bad_item(struct rewriter *rw, const char *what)
{
	return qwen_refuse_invalid(rw->refusal, "input", "item %zu: %s", rw->at,
	    what);
}

static int
bad_type(struct rewriter *rw, const char *kind, yyjson_val *v)
{
	yyjson_val *type = yyjson_obj_get(v, "type");

	return qwen_refuse_invalid(rw->refusal, "input", "item %zu: %s of type "
	    "%.40s are not supported%s", rw->at, kind, yyjson_is_str(type) ?
	    yyjson_get_str(type) : "?", qwen_parse_part_hint(v));
}

/* ----------------------------------------------------------------- messages */

/* {"role": ... of the next message */
static void
begin_message(struct rewriter *rw, const char *role)
{
	qwen_json_put(rw->t, "%s{'role':'%s'", rw->n++ > 0 ? "," : "", role);
	rw->n_said += strcmp(role, "system") != 0 &&
	    strcmp(role, "developer") != 0;
}

/* Adds a field with a string. */
static void
add_text(struct qwen_text *t, const char *key, const struct qwen_text *text)
{
	qwen_json_put(t, ",'%s':", key);
	qwen_text_json(t, text->n > 0 ? text->s : "", text->n);
}

/*
 * Writes the messages not written so far: the system's, the assistant's turn.
 */
static void
flush(struct rewriter *rw)
{
	if (!rw->begun && rw->lead.n > 0) {
		begin_message(rw, "system");
		add_text(rw->t, "content", &rw->lead);
		qwen_text_str(rw->t, "}");
	}
	rw->begun = 1;
	if (!rw->turn)
		return;
	begin_message(rw, "assistant");
	add_text(rw->t, "content", &rw->text);
	if (rw->thought.n > 0)
		add_text(rw->t, "reasoning_content", &rw->thought);
	if (rw->n_calls > 0) {
		qwen_json_put(rw->t, ",'tool_calls':[");
		qwen_text_add(rw->t, rw->calls.s, rw->calls.n);
		qwen_text_str(rw->t, "]");
	}
	qwen_text_str(rw->t, "}");
	rw->thought.n = rw->text.n = rw->calls.n = rw->n_calls = 0;
	rw->turn = 0;
}

/* Returns the text of a part, or NULL after a refusal. */
static yyjson_val *
part_text(struct rewriter *rw, yyjson_val *part)
{
	int refusal = qwen_parse_has_type(part, "refusal");
	yyjson_val *text = qwen_parse_get_text(part, refusal ? "refusal" :
	    "text");

	if (!refusal && !qwen_parse_has_type(part, "input_text") &&
	    !qwen_parse_has_type(part, "output_text") &&
	    !qwen_parse_has_type(part, "text"))
		bad_type(rw, "parts", part);
	else if (text == NULL)
		bad_item(rw, "a part has no text");
	else
		return text;
	return NULL;
}

/* Appends the text of a content, with between its parts. */
static int
gather(struct rewriter *rw, struct qwen_text *t, yyjson_val *content,
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
		return bad_item(rw, "the content is neither a string nor a "
		    "list of parts");
	yyjson_arr_foreach(content, i, n, v) {
		if ((text = part_text(rw, v)) == NULL)
			return -1;
		qwen_text_str(t, i > 0 ? between : "");
		qwen_text_add(t, yyjson_get_str(text), yyjson_get_len(text));
	}
	return 0;
}

/* Adds "content": a string, or parts with text. */
static int
add_content(struct rewriter *rw, yyjson_val *content)
{
	yyjson_val *v, *text;
	size_t i, n;

	qwen_json_put(rw->t, ",'content':");
	if (yyjson_is_str(content)) {
		qwen_json_value(rw->t, content);
		return 0;
	}
	if (!yyjson_is_arr(content))
		return bad_item(rw, "the content is neither a string nor a "
		    "list of parts");
	qwen_text_str(rw->t, "[");
	yyjson_arr_foreach(content, i, n, v) {
		if ((text = part_text(rw, v)) == NULL)
			return -1;
		qwen_json_put(rw->t, "%s{'type':'text','text':%p}", i > 0 ? ","
		    : "", text);
	}
	qwen_text_str(rw->t, "]");
	return 0;
}

/* Adds a separate message. */
static int
add_message(struct rewriter *rw, const char *role, yyjson_val *content)
{
	flush(rw);
	begin_message(rw, role);
	if (add_content(rw, content) < 0)
		return -1;
	qwen_text_str(rw->t, "}");
	return 0;
}

static int
add_system(struct rewriter *rw, const char *role, yyjson_val *content)
{
	if (rw->begun || rw->turn)
		return add_message(rw, role, content);
	if (rw->lead.n > 0)
		qwen_text_str(&rw->lead, "\n\n");
	return gather(rw, &rw->lead, content, "\n");
}

/* -------------------------------------------------------------------- items */

/* Keeps a user message for the result of /compact, which repeats it. */
static void
add_user_item(struct rewriter *rw, yyjson_val *content)
{
	struct qwen_text *t = &rw->users;

	qwen_json_put(t, "%s{'type':'message','role':'user','status':"
	    "'completed','content':", t->n > 0 ? "," : "");
	if (yyjson_is_str(content))
		qwen_json_put(t, "[{'type':'input_text','text':");
	qwen_json_put(t, "%p%s", content, yyjson_is_str(content) ? "}]}" : "}");
}

static int
read_message(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *role = yyjson_obj_get(v, "role");
	yyjson_val *content = qwen_parse_get(v, "content");

	if (yyjson_equals_str(role, "user")) {
		add_user_item(rw, content);
		return add_message(rw, "user", content);
	}
	if (yyjson_equals_str(role, "system") ||
	    yyjson_equals_str(role, "developer"))
		return add_system(rw, yyjson_get_str(role), content);
	if (!yyjson_equals_str(role, "assistant"))
		return bad_item(rw, "the role is not user, assistant, system "
		    "or developer");
	/* a message after a call belongs to the same turn */
	if (rw->text.n > 0 && rw->n_calls == 0)
		flush(rw);
	rw->turn = 1;
	return gather(rw, &rw->text, content, "");
}

static int
read_reasoning(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *part, *text;
	size_t i, n;

	if (rw->text.n > 0 || rw->n_calls > 0)
		flush(rw);
	rw->turn = 1;
	yyjson_arr_foreach(qwen_parse_get(v, "content"), i, n, part) {
		if ((text = qwen_parse_get_text(part, "text")) == NULL)
			return bad_item(rw, "a part has no text");
		qwen_text_add(&rw->thought, yyjson_get_str(text),
		    yyjson_get_len(text));
	}
	return 0;
}

/* Begins a call, up to its arguments. */
static void
begin_call(struct rewriter *rw, yyjson_val *id, yyjson_val *space,
    yyjson_val *name)
{
	struct qwen_text *t = &rw->calls, called = { 0 };

	rw->turn = 1;
	qwen_json_put(t, "%s%p,'type':'function','function':{'name':",
	    rw->n_calls++ > 0 ? ",{\"id\":" : "{\"id\":", id);
	qwen_parse_join_name(&called, space, name);
	qwen_json_put(t, "%pT,'arguments':", &called);
	t->failed |= called.failed;
	qwen_text_fini(&called);
}

static int
read_call(struct rewriter *rw, yyjson_val *v)
{
	int custom = qwen_parse_has_type(v, "custom_tool_call");
	yyjson_val *id = qwen_parse_get_text(v, "call_id"), *name =
	    qwen_parse_get_text(v, "name");
	yyjson_val *arguments = qwen_parse_get(v, custom ? "input" :
	    "arguments");

	if (id == NULL || name == NULL || yyjson_get_len(name) == 0)
		return bad_item(rw, custom ? "a custom_tool_call needs call_id "
		    "and name, both strings" : "a function_call needs call_id "
		    "and name, both strings");
	if (arguments != NULL && !yyjson_is_str(arguments) &&
	    (custom || !yyjson_is_obj(arguments)))
		return bad_item(rw, custom ? "the input of a custom_tool_call "
		    "is not a string" : "the arguments of a function_call are "
		    "neither an object nor a string");
	begin_call(rw, id, qwen_parse_get_text(v, "namespace"), name);
	qwen_text_str(&rw->calls, custom ? "{\"input\":" : "");
	if (arguments != NULL)
		qwen_json_value(&rw->calls, arguments);
	else
		qwen_text_str(&rw->calls, custom ? "\"\"" : "{}");
	qwen_text_str(&rw->calls, custom ? "}}}" : "}}");
	return 0;
}

/* Begins the message of a tool, up to its content. */
static void
begin_output(struct rewriter *rw, yyjson_val *id)
{
	flush(rw);
	begin_message(rw, "tool");
	qwen_json_put(rw->t, ",'tool_call_id':%p", id);
}

static int
read_output(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *id = qwen_parse_get_text(v, "call_id");

	if (id == NULL)
		return bad_item(rw, qwen_parse_has_type(v,
		    "function_call_output") ? "a function_call_output has no "
		    "call_id" : "a custom_tool_call_output has no call_id");
	begin_output(rw, id);
	if (qwen_parse_get(v, "output") == NULL)
		qwen_json_put(rw->t, ",'content':''");
	else if (add_content(rw, qwen_parse_get(v, "output")) < 0)
		return -1;
	qwen_text_str(rw->t, "}");
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
read_local_call(struct rewriter *rw, yyjson_val *v, size_t which)
{
	yyjson_val *id = qwen_parse_get_text(v, "call_id");
	yyjson_val *object = qwen_parse_get(v, local[which].object);

	if (id == NULL)
		id = qwen_parse_get_text(v, "id");
	if (id == NULL || (!yyjson_is_obj(object) && !yyjson_is_str(object)))
		return bad_item(rw, "a call needs call_id and an object that "
		    "describes the call");
	rw->turn = 1;
	qwen_json_put(&rw->calls, "%s%p,'type':'function','function':{'name':"
	    "'%s','arguments':%p}}", rw->n_calls++ > 0 ? ",{\"id\":" :
	    "{\"id\":", id, local[which].name, object);
	return 0;
}

/* Adds the tools of a list, or those that a search found. */
static void
add_more(struct rewriter *rw, yyjson_val *tools)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(tools, i, n, v) {
		qwen_json_put(rw->more, "%s%p", rw->more->n > 0 ? "," : "[", v);
	}
}

/* Adds the output as text: a string unchanged, other values as JSON. */
static int
read_local_output(struct rewriter *rw, yyjson_val *v)
{
	int found = qwen_parse_has_type(v, "tool_search_output");
	yyjson_val *id = qwen_parse_get_text(v, "call_id");
	yyjson_val *output = qwen_parse_get(v, found ? "tools" : "output");
	struct qwen_text json = { 0 };

	if (id == NULL)
		id = qwen_parse_get_text(v, "id");
	if (id == NULL)
		return bad_item(rw, "an output has no call_id");
	if (found)
		add_more(rw, output);
	if (output == NULL)
		output = qwen_parse_get(v, "status");
	begin_output(rw, id);
	qwen_json_put(rw->t, ",'content':");
	if (yyjson_is_str(output))
		qwen_json_value(rw->t, output);
	else {
		if (output != NULL)
			qwen_json_value(&json, output);
		qwen_text_json(rw->t, json.s, json.n);
	}
	qwen_text_str(rw->t, "}");
	rw->t->failed |= json.failed;
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
		*is_output = qwen_parse_has_type(v, local[i].output);
		if (*is_output || qwen_parse_has_type(v, local[i].call))
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
		if (qwen_parse_has_type(v, row[i]))
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
read_compaction(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *text = qwen_parse_get_text(v, "encrypted_content");
	const char *s = yyjson_get_str(text);
	size_t n = strlen(QWEN_COMPACTION);

	if (text == NULL || yyjson_get_len(text) < n ||
	    memcmp(s, QWEN_COMPACTION, n) != 0)
		return qwen_parse_skip_type(rw->r, "input", "items",
		    yyjson_obj_get(v, "type"));
	flush(rw);
	begin_message(rw, "user");
	qwen_json_put(rw->t, ",'content':");
	qwen_text_json(rw->t, s + n, yyjson_get_len(text) - n);
	qwen_text_str(rw->t, "}");
	return 0;
}

static int read_item(struct rewriter *rw, yyjson_val *v);

static int
read_reference(struct rewriter *rw, yyjson_val *v)
{
	const char *id = yyjson_get_str(qwen_parse_get_text(v, "id"));
	yyjson_val *item;

	if (id == NULL)
		return bad_item(rw, "an item_reference has no id");
	item = qwen_parse_find_item(rw->r, &rw->kept, id);
	if (rw->refusal->err.code != 0)
		return -1;
	return item != NULL ? read_item(rw, item) : qwen_refuse(rw->refusal,
	    "item_not_found", "input", "item %zu: %.60s is not known here; a "
	    "response is kept if its request had no \"store\": false, until "
	    "the server ends: send the item itself", rw->at, id);
}

static int
read_item(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *type = qwen_parse_get(v, "type");
	size_t which;
	int is_output;

	if (!yyjson_is_obj(v))
		return bad_item(rw, "is not an object");
	if (qwen_parse_has_type(v, "item_reference") || (type == NULL &&
	    yyjson_obj_get(v, "role") == NULL && qwen_parse_get_text(v, "id") !=
	    NULL))
		return read_reference(rw, v);
	if (type == NULL || qwen_parse_has_type(v, "message"))
		return read_message(rw, v);
	if (qwen_parse_has_type(v, "function_call") || qwen_parse_has_type(v,
	    "custom_tool_call"))
		return read_call(rw, v);
	if (qwen_parse_has_type(v, "function_call_output") ||
	    qwen_parse_has_type(v, "custom_tool_call_output"))
		return read_output(rw, v);
	if (qwen_parse_has_type(v, "reasoning"))
		return read_reasoning(rw, v);
	if (qwen_parse_has_type(v, "compaction") || qwen_parse_has_type(v,
	    "compaction_summary"))
		return read_compaction(rw, v);
	if (qwen_parse_has_type(v, "additional_tools")) {
		add_more(rw, qwen_parse_get(v, "tools"));
		return 0;
	}
	if (find_local(v, &which, &is_output))
		return is_output ? read_local_output(rw, v) :
		    read_local_call(rw, v, which);
	return is_hosted(v) ? qwen_parse_skip_type(rw->r, "input", "items",
	    type) : bad_type(rw, "items", v);
}

static int
read_items(struct rewriter *rw, yyjson_val *list)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, v) {
		rw->at = i + 1;
		if (read_item(rw, v) < 0)
			return -1;
	}
	return 0;
}

static int
read_before(struct rewriter *rw, const struct qwen_text *items)
{
	struct qwen_err err;
	yyjson_doc *doc = qwen_json_open(items->s, items->n, &err);
	int rc;

	if (doc == NULL)
		return qwen_refuse_error(rw->refusal, "previous_response_id",
		    &err);
	rc = read_items(rw, yyjson_doc_get_root(doc));
	yyjson_doc_free(doc);
	return rc;
}

static int
add_items(struct rewriter *rw, yyjson_val *input)
{
	yyjson_val *id = qwen_parse_get(rw->r->body, "previous_response_id");
	struct qwen_text before = { 0 };
	int rc = 0;

	if (yyjson_equals_str(id, ""))
		id = NULL;
	if (id != NULL && ((rc = qwen_parse_load_items(rw->r, id, &before)) <
	    0 || (rc = read_before(rw, &before)) < 0))
		;
	else if (rw->r->s->recall != NULL && !yyjson_is_false(qwen_parse_get(
	    rw->r->body, "store")))
		rc = qwen_parse_save_items(rw->r, &before, input);
	qwen_text_fini(&before);
	if (rc < 0)
		return -1;
	rw->at = 1;
	if (!yyjson_is_str(input))
		return read_items(rw, input);
	add_user_item(rw, input);
	return add_message(rw, "user", input);
}

/*
 * Adds the last user message: a request for a summary, or, without any input,
 * an empty one.
 */
static void
add_last(struct rewriter *rw)
{
	static const char summarize[] = "Summarize this conversation for an "
	    "assistant that continues it without having seen it. Keep: what "
	    "the user wants, what was decided and done, results and facts that "
	    "are still needed (names of files, commands, values, errors), and "
	    "what is left to do. Answer with the summary only.";
	int compact = rw->r->q->form == QWEN_FORM_COMPACT;

	/* clients test a server without any input */
	if (!compact && rw->n_said > 0)
		return;
	begin_message(rw, "user");
	qwen_json_put(rw->t, ",'content':'%s'}", compact ? summarize : "");
}

static int
add_messages(struct rewriter *rw)
{
	yyjson_val *about = qwen_parse_get(rw->r->body, "instructions");
	yyjson_val *input = qwen_parse_get(rw->r->body, "input");

	if (input == NULL && qwen_parse_get(rw->r->body,
	    "previous_response_id") == NULL)
		return qwen_refuse_invalid(rw->refusal, "input", "input is "
		    "missing");
	if (input != NULL && !yyjson_is_str(input) && !yyjson_is_arr(input))
		return qwen_refuse_field(rw->refusal, "input", "is neither a "
		    "string nor a list of items");
	if (about != NULL && !yyjson_is_str(about))
		return qwen_refuse_field(rw->refusal, "instructions", "is not "
		    "a string");
	qwen_text_add(&rw->lead, yyjson_get_str(about), yyjson_get_len(about));
	qwen_json_put(rw->t, ",'messages':[");
	if (add_items(rw, input) < 0)
		return -1;
	flush(rw);
	add_last(rw);
	qwen_text_str(rw->t, "]");
	rw->t->failed |= rw->lead.failed | rw->thought.failed |
	    rw->text.failed | rw->calls.failed | rw->users.failed |
	    rw->more->failed;
	return 0;
}

int
qwen_parse_items(struct qwen_parser *r, struct qwen_text *t,
    struct qwen_text *more)
{
	struct rewriter rw = { .r = r, .refusal = r->refusal, .t = t, .more =
	    more };
	int rc = add_messages(&rw);

	if (rc == 0 && r->q->form == QWEN_FORM_COMPACT && !t->failed) {
		qwen_text_str(&rw.users, "");
		r->q->echoed = rw.users.s;
		r->q->n_bytes += rw.users.n;
		rw.users = (struct qwen_text){ 0 };
	}
	yyjson_doc_free(rw.kept.doc);
	qwen_text_fini(&rw.lead);
	qwen_text_fini(&rw.thought);
	qwen_text_fini(&rw.text);
	qwen_text_fini(&rw.calls);
	qwen_text_fini(&rw.users);
	return rc;
}
