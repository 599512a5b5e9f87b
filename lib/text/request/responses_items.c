/* SPDX-License-Identifier: ISC */
/*
 * responses_items.c - the items of /v1/responses as messages of a chat.
 * Adjacent items of one turn of the assistant become one message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

enum { STEPS_MAX = 8 << 20 };	/* work per request: items visited */

/* The messages while they are built from items. */
struct rewriter {
	struct qwen_parser	*r;	/* r->out gets the messages */
	struct qwen_text	 lead;	/* system texts before all other
					   messages */
	int			 begun;	/* lead is written */
	struct qwen_text	 thought, text, calls;	/* of the assistant's
							   turn */
	int			 turn;	/* there is such a turn */
	struct qwen_text	 users;	/* user messages, as items */
	struct qwen_text	*more;	/* tools: a JSON list without
					   brackets */
	struct kept {
		yyjson_doc	*doc;	/* items of a response, or NULL */
		uint64_t	 number;	/* of that response */
		size_t		 steps;	/* work so far, to limit it */
	}			 kept;
	int			 is_said;	/* a message not of the system
						   is written */
};

static const struct qwen_parts parts = {
	.item = "item", .part = "part", .param = "input",
	.item0 = "an earlier response", .param0 = "input", .only = "",
	.texts = QWEN_WORDS("input_text", "text", "output_text", "text",
	    "text", "text", "refusal", "refusal"),
	.hosted = QWEN_WORDS("compaction_trigger", "computer_call_output",
	    "configuration_update", "context_compaction", "ghost_snapshot",
	    "mcp_approval_request", "mcp_approval_response", "mcp_list_tools",
	    "program", "program_output", "tool_search_output"),
	.hosted_end = "_call",
};

/* ----------------------------------------------------------------- messages */

/*
 * Writes the messages not written so far: the system's, the assistant's turn.
 */
static void
flush(struct rewriter *rw)
{
	struct qwen_text *t = &rw->r->out;

	if (!rw->begun && rw->lead.n > 0)
		qwen_json_put(t, ",{'role':'system','content':%pT}", &rw->lead);
	rw->begun = 1;
	if (!rw->turn)
		return;
	qwen_json_put(t, ",{'role':'assistant','content':%pT", &rw->text);
	if (rw->thought.n > 0)
		qwen_json_put(t, ",'reasoning_content':%pT", &rw->thought);
	if (rw->calls.n > 0)
		qwen_json_put(t, ",'tool_calls':[%s]", rw->calls.s);
	qwen_text_str(t, "}");
	rw->thought.n = rw->text.n = rw->calls.n = 0;
	rw->is_said = 1;
	rw->turn = 0;
}

/* Appends the text of a content, with between its parts. */
static int
gather(struct rewriter *rw, struct qwen_text *t, yyjson_val *content,
    const char *between)
{
	yyjson_val *v, *text;
	size_t i, n;

	qwen_text_add(t, yyjson_get_str(content), qwen_parse_str(content).len);
	if (!yyjson_is_str(content) && !yyjson_is_arr(content))
		return qwen_refuse_item(rw->r, "the content is neither a "
		    "string nor a list of parts");
	yyjson_arr_foreach(content, i, n, v) {
		if ((text = qwen_parse_part_text(rw->r, v)) == NULL)
			return -1;
		qwen_text_str(t, i > 0 ? between : "");
		qwen_text_add(t, yyjson_get_str(text), yyjson_get_len(text));
	}
	return 0;
}

/* Adds a message of the user. */
static int
add_user(struct rewriter *rw, yyjson_val *content)
{
	flush(rw);
	rw->is_said = 1;
	return qwen_parse_add_message(rw->r, "user", content);
}

static int
add_system(struct rewriter *rw, const char *role, yyjson_val *content)
{
	if (rw->begun || rw->turn) {
		flush(rw);
		return qwen_parse_add_message(rw->r, role, content);
	}
	if (rw->lead.n > 0)
		qwen_text_str(&rw->lead, "\n\n");
	return gather(rw, &rw->lead, content, "\n");
}

/* Adds the result of a tool. */
static int
add_result(struct rewriter *rw, yyjson_val *id, yyjson_val *content)
{
	flush(rw);
	rw->is_said = 1;
	return qwen_parse_add_result(rw->r, id, content);
}

/* -------------------------------------------------------------------- items */

/* Keeps a user message for the result of /compact, which repeats it. */
static void
add_user_item(struct rewriter *rw, yyjson_val *content)
{
	int is_text = yyjson_is_str(content);

	qwen_json_put(&rw->users, ",{'type':'message','role':'user',"
	    "'status':'completed','content':");
	qwen_json_put(&rw->users, is_text ?
	    "[{'type':'input_text','text':%p}]}" : "%p}", content);
}

static int
read_message(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *role = yyjson_obj_get(v, "role");
	yyjson_val *content = qwen_parse_get(v, "content");

	if (yyjson_equals_str(role, "user")) {
		add_user_item(rw, content);
		return add_user(rw, content);
	}
	if (yyjson_equals_str(role, "system") ||
	    yyjson_equals_str(role, "developer"))
		return add_system(rw, yyjson_get_str(role), content);
	if (!yyjson_equals_str(role, "assistant"))
		return qwen_refuse_item(rw->r, "the role is not user, "
		    "assistant, system or developer");
	/* a message after a call belongs to the same turn */
	if (rw->text.n > 0 && rw->calls.n == 0)
		flush(rw);
	rw->turn = 1;
	return gather(rw, &rw->text, content, "");
}

static int
read_reasoning(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *part, *text;
	size_t i, n;

	if (rw->text.n > 0 || rw->calls.n > 0)
		flush(rw);
	rw->turn = 1;
	yyjson_arr_foreach(qwen_parse_get(v, "content"), i, n, part) {
		if ((text = qwen_parse_get_text(part, "text")) == NULL)
			return qwen_refuse_item(rw->r, "a part has no text");
		qwen_text_add(&rw->thought, yyjson_get_str(text),
		    yyjson_get_len(text));
	}
	return 0;
}

static int
read_call(struct rewriter *rw, yyjson_val *v)
{
	int custom = qwen_parse_has_type(v, "custom_tool_call");
	yyjson_val *id = qwen_parse_get_text(v, "call_id"), *name =
	    qwen_parse_get_text(v, "name");
	yyjson_val *arguments = qwen_parse_get(v, custom ? "input" :
	    "arguments");
	struct qwen_text called = { 0 };

	if (id == NULL || name == NULL || yyjson_get_len(name) == 0)
		return qwen_refuse_item(rw->r, "a %s needs call_id and name, "
		    "both strings", custom ? "custom_tool_call" :
		    "function_call");
	if (arguments != NULL && !yyjson_is_str(arguments) &&
	    (custom || !yyjson_is_obj(arguments)))
		return qwen_refuse_item(rw->r, custom ? "the input of a "
		    "custom_tool_call is not a string" : "the arguments of a "
		    "function_call are neither an object nor a string");
	rw->turn = 1;
	qwen_parse_join_name(&called, qwen_parse_get_text(v, "namespace"),
	    name);
	qwen_parse_begin_call(&rw->calls, id, (struct qwen_str){ called.s,
	    called.n });
	rw->calls.failed |= called.failed;
	qwen_text_fini(&called);
	if (arguments == NULL)
		qwen_json_put(&rw->calls, custom ? "{'input':''}}}" : "{}}}");
	else
		qwen_json_put(&rw->calls, custom ? "{'input':%p}}}" : "%p}}",
		    arguments);
	return 0;
}

static int
read_output(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *id = qwen_parse_get_text(v, "call_id");

	return id == NULL ? qwen_refuse_item(rw->r, "a %s has no call_id",
	    yyjson_get_str(yyjson_obj_get(v, "type"))) : add_result(rw, id,
	    qwen_parse_get(v, "output"));
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

/* Returns the id of the call that an item is or answers, or NULL. */
static yyjson_val *
call_id(yyjson_val *v)
{
	yyjson_val *id = qwen_parse_get_text(v, "call_id");

	return id != NULL ? id : qwen_parse_get_text(v, "id");
}

static int
read_local_call(struct rewriter *rw, yyjson_val *v, size_t which)
{
	yyjson_val *object = qwen_parse_get(v, local[which].object);
	const char *name = local[which].name;

	if (call_id(v) == NULL || (!yyjson_is_obj(object) &&
	    !yyjson_is_str(object)))
		return qwen_refuse_item(rw->r, "a call needs call_id and an "
		    "object that describes the call");
	rw->turn = 1;
	qwen_parse_begin_call(&rw->calls, call_id(v), (struct qwen_str){ name,
	    strlen(name) });
	qwen_json_put(&rw->calls, "%p}}", object);
	return 0;
}

/* Adds the tools of a list, or those that a search found. */
static void
add_more(struct rewriter *rw, yyjson_val *tools)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(tools, i, n, v)
		qwen_json_put(rw->more, ",%p", v);
}

/* Adds the output as text: a string unchanged, other values as JSON. */
static int
read_local_output(struct rewriter *rw, yyjson_val *v)
{
	int found = qwen_parse_has_type(v, "tool_search_output");
	yyjson_val *output = qwen_parse_get(v, found ? "tools" : "output");
	struct qwen_text json = { 0 };

	if (call_id(v) == NULL)
		return qwen_refuse_item(rw->r, "an output has no call_id");
	if (found)
		add_more(rw, output);
	if (output == NULL)
		output = qwen_parse_get(v, "status");
	if (output == NULL || yyjson_is_str(output))
		return add_result(rw, call_id(v), output);
	flush(rw);
	rw->is_said = 1;
	qwen_json_value(&json, output);
	qwen_json_put(&rw->r->out, ",{'role':'tool','tool_call_id':%p,"
	    "'content':%pT}", call_id(v), &json);
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

/* ------------------------------------------------------------ kept items */

/* Appends the items of the response id to items: a list with its brackets. */
static int
load_items(struct qwen_parser *r, yyjson_val *id, struct qwen_text *items)
{
	const struct qwen_service *s = r->s;
	struct qwen_err err;
	int got;

	if (s->recall == NULL)
		return qwen_invalid(r, "previous_response_id",
		    "previous_response_id is not supported");
	if (!yyjson_is_str(id) || strlen(yyjson_get_str(id)) !=
	    yyjson_get_len(id))
		return qwen_wrong(r, "previous_response_id", "is not an id");
	if ((r->q->previous = strdup(yyjson_get_str(id))) == NULL)
		return qwen_oom(&r->refusal->err);
	got = s->recall(s->recall_arg, yyjson_get_str(id), items, &err);
	if (got < 0)
		return qwen_refuse_error(r->refusal, "previous_response_id",
		    &err);
	if (items->failed)
		return qwen_oom(&r->refusal->err);
	return got > 0 ? 0 : qwen_refuse(r->refusal,
	    "previous_response_not_found", "previous_response_id", "response "
	    "%.60s is not known", yyjson_get_str(id));
}

/* Saves the items before, then those of this request, without brackets. */
static int
save_items(struct qwen_parser *r, const struct qwen_text *before,
    yyjson_val *input)
{
	struct qwen_text t = { 0 };
	yyjson_val *v;
	size_t i, n;

	/* without the brackets */
	if (before->n > 2)
		qwen_text_add(&t, before->s + 1, before->n - 2);
	if (yyjson_is_str(input))
		qwen_json_put(&t, ",{'role':'user','content':%p}", input);
	yyjson_arr_foreach(input, i, n, v)
		qwen_json_put(&t, ",%p", v);
	return qwen_parse_keep_text(r, &t, &r->q->items);
}

/*
 * Loads the items of the response with this number; -1 if it is unknown, or
 * after a refusal.
 */
static int
open_kept(struct rewriter *rw, const char *digits)
{
	const struct qwen_service *s = rw->r->s;
	struct kept *k = &rw->kept;
	struct qwen_text items = { 0 };
	struct qwen_err err;
	char id[32], *end;
	uint64_t number = strtoull(digits, &end, 10);
	int got;

	if (s->recall == NULL || digits[0] < '0' || digits[0] > '9')
		return -1;
	if (k->doc != NULL && k->number == number)
		return 0;
	snprintf(id, sizeof id, "resp_%llu", (unsigned long long)number);
	got = s->recall(s->recall_arg, id, &items, &err);
	yyjson_doc_free(k->doc);
	k->doc = NULL;
	k->number = number;
	k->steps += items.n / 16;
	if (items.failed || (got < 0 && err.code == QWEN_ENOMEM))
		qwen_oom(&rw->r->refusal->err);
	else if (got > 0 && (k->doc = qwen_json_open(items.s, items.n,
	    &err)) == NULL)
		qwen_refuse_error(rw->r->refusal, "input", &err);
	qwen_text_fini(&items);
	return k->doc != NULL ? 0 : -1;
}

/*
 * Returns an item of an earlier response, whose number is in the id; NULL if it
 * is unknown, or after a refusal.  It lives until the next call.
 */
static yyjson_val *
find_item(struct rewriter *rw, const char *id)
{
	struct kept *k = &rw->kept;
	const char *digits = strchr(id, '_');
	yyjson_val *list, *v;
	size_t i, n;

	if (k->steps > STEPS_MAX) {
		qwen_invalid(rw->r, "input", "too many references to items: "
		    "send the items themselves");
		return NULL;
	}
	if (digits == NULL || open_kept(rw, digits + 1) < 0)
		return NULL;
	list = yyjson_doc_get_root(k->doc);
	k->steps += yyjson_arr_size(list);
	yyjson_arr_foreach(list, i, n, v) {
		if (yyjson_equals_str(yyjson_obj_get(v, "id"), id) &&
		    !qwen_parse_has_type(v, "item_reference") &&
		    yyjson_obj_size(v) > 1)
			return v;
	}
	return NULL;
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
	struct qwen_str summary;

	if (text == NULL || yyjson_get_len(text) < n ||
	    memcmp(s, QWEN_COMPACTION, n) != 0)
		return qwen_parse_skip_type(rw->r, "input", "items",
		    yyjson_obj_get(v, "type"));
	flush(rw);
	rw->is_said = 1;
	summary = (struct qwen_str){ s + n, yyjson_get_len(text) - n };
	qwen_json_put(&rw->r->out, ",{'role':'user','content':%pS}", &summary);
	return 0;
}

static int read_item(struct rewriter *rw, yyjson_val *v);

static int
read_reference(struct rewriter *rw, yyjson_val *v)
{
	const char *id = yyjson_get_str(qwen_parse_get_text(v, "id"));
	yyjson_val *item;

	if (id == NULL)
		return qwen_refuse_item(rw->r, "an item_reference has no id");
	item = find_item(rw, id);
	if (rw->r->refusal->err.code != 0)
		return -1;
	return item != NULL ? read_item(rw, item) : qwen_refuse(rw->r->refusal,
	    "item_not_found", "input", "item %zu: %.60s is not known here; a "
	    "response is kept if its request had no \"store\": false, until "
	    "the server ends: send the item itself", rw->r->at, id);
}

static int
read_item(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *type = qwen_parse_get(v, "type");
	size_t which;
	int is_output;

	if (!yyjson_is_obj(v))
		return qwen_refuse_item(rw->r, "is not an object");
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
	return qwen_parse_is_hosted(rw->r, v) ? qwen_parse_skip_type(rw->r,
	    "input", "items", type) : qwen_refuse_type(rw->r, "item", v);
}

static int
read_items(struct rewriter *rw, yyjson_val *list)
{
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, v) {
		rw->r->at = i + 1;
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
		return qwen_refuse_error(rw->r->refusal, "previous_response_id",
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
	if (id != NULL && ((rc = load_items(rw->r, id, &before)) < 0 ||
	    (rc = read_before(rw, &before)) < 0))
		;
	else if (rw->r->s->recall != NULL && !yyjson_is_false(qwen_parse_get(
	    rw->r->body, "store")))
		rc = save_items(rw->r, &before, input);
	qwen_text_fini(&before);
	if (rc < 0)
		return -1;
	rw->r->at = 1;
	if (!yyjson_is_str(input))
		return read_items(rw, input);
	add_user_item(rw, input);
	return add_user(rw, input);
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
	if (compact || !rw->is_said)
		qwen_json_put(&rw->r->out, ",{'role':'user','content':'%s'}",
		    compact ? summarize : "");
}

static int
add_messages(struct rewriter *rw)
{
	struct qwen_str about = { NULL, 0 };
	yyjson_val *input = qwen_parse_get(rw->r->body, "input");
	struct qwen_text *out = &rw->r->out;

	if (input == NULL && qwen_parse_get(rw->r->body,
	    "previous_response_id") == NULL)
		return qwen_invalid(rw->r, "input", "input is missing");
	if (input != NULL && !yyjson_is_str(input) && !yyjson_is_arr(input))
		return qwen_wrong(rw->r, "input", "is neither a string nor a "
		    "list of items");
	if (qwen_parse_string(rw->r->refusal, rw->r->body, "instructions",
	    &about) < 0)
		return -1;
	qwen_text_add(&rw->lead, about.s, about.len);
	qwen_json_put(out, ",'messages':[");
	if (add_items(rw, input) < 0)
		return -1;
	flush(rw);
	add_last(rw);
	qwen_text_str(out, "]");
	out->failed |= rw->lead.failed | rw->thought.failed | rw->text.failed |
	    rw->calls.failed | rw->users.failed | rw->more->failed;
	return 0;
}

int
qwen_parse_items(struct qwen_parser *r, struct qwen_text *more)
{
	struct rewriter rw = { .r = r, .more = more };
	int rc;

	r->parts = &parts;
	rc = add_messages(&rw);
	if (rc == 0 && r->q->form == QWEN_FORM_COMPACT && !r->out.failed)
		rc = qwen_parse_keep_text(r, &rw.users, &r->q->echoed);
	yyjson_doc_free(rw.kept.doc);
	qwen_text_fini(&rw.lead);
	qwen_text_fini(&rw.thought);
	qwen_text_fini(&rw.text);
	qwen_text_fini(&rw.calls);
	qwen_text_fini(&rw.users);
	return rc;
}
