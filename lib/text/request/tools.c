/* SPDX-License-Identifier: ISC */
/* tools.c - the tools of a chat, and whether a reply may or must call them. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "text/chat/tools.h"
#include "text/request/parser.h"

enum { ALLOWED_MAX = 1024 };	/* each is compared with all tools */

static yyjson_val *
name_of(yyjson_val *tool)
{
	return yyjson_obj_get(qwen_chat_tool_function(tool), "name");
}

/* Returns the tool of that name in a list, or NULL. */
static yyjson_val *
find_tool(yyjson_val *list, yyjson_val *name)
{
	yyjson_val *tool;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, tool) {
		if (yyjson_equals(name_of(tool), name))
			return tool;
	}
	return NULL;
}

/* Returns the tool of that name that the request has, or NULL: refused. */
static yyjson_val *
known_tool(struct qwen_parser *r, yyjson_val *name)
{
	yyjson_val *tool = find_tool(r->tools, name);

	if (tool == NULL)
		qwen_wrong(r, "tool_choice", "unknown tool %.60s",
		    yyjson_get_str(name));
	return tool;
}

/* {"type": "function", "function": {"name": "f"}} */
static int
read_named(struct qwen_parser *r, yyjson_val *v)
{
	yyjson_val *type = yyjson_obj_get(v, "type"), *name = name_of(v), *tool;

	if (yyjson_is_str(type) && !yyjson_equals_str(type, "function"))
		return qwen_wrong(r, "tool_choice", "type %.40s is not "
		    "supported", yyjson_get_str(type));
	if (!yyjson_is_str(name))
		return qwen_wrong(r, "tool_choice", "is not none, auto, "
		    "required or a function with a name");
	tool = known_tool(r, name);
	return tool == NULL ? -1 : qwen_parse_restrict_calls(r, tool, NULL, 0);
}

/* Keeps only the named tools. */
static int
keep_named(struct qwen_parser *r, yyjson_val *names)
{
	struct qwen_text t = { 0 };
	struct qwen_err err;
	yyjson_val *tool;
	size_t i, n;

	qwen_text_str(&t, "[");
	yyjson_arr_foreach(r->tools, i, n, tool) {
		if (find_tool(names, name_of(tool)) != NULL)
			qwen_json_put(&t, ",%p", tool);
	}
	qwen_text_str(&t, "]");
	if (!t.failed)
		r->allowed = qwen_json_open(t.s, t.n, &err);
	qwen_text_fini(&t);
	r->tools = yyjson_doc_get_root(r->allowed);
	return r->allowed != NULL ? 0 : qwen_oom(&r->refusal->err);
}

/*
 * Reads {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools":
 * [...]}}: keeps only these tools; *mode takes the place of the choice.
 */
static int
read_allowed(struct qwen_parser *r, yyjson_val *v, yyjson_val **mode)
{
	yyjson_val *in = yyjson_obj_get(v, "allowed_tools"), *names;
	size_t i, n;

	in = in != NULL ? in : v;
	names = yyjson_obj_get(in, "tools");
	*mode = yyjson_obj_get(in, "mode");
	if (!yyjson_equals_str(*mode, "auto") &&
	    !yyjson_equals_str(*mode, "required"))
		return qwen_wrong(r, "tool_choice", "the mode of allowed_tools "
		    "is not auto or required");
	if (yyjson_arr_size(names) == 0 ||
	    yyjson_arr_size(names) > ALLOWED_MAX)
		return qwen_wrong(r, "tool_choice", "allowed_tools has no list "
		    "of 1 to %d tools", ALLOWED_MAX);
	yyjson_arr_foreach(names, i, n, v) {
		if (!yyjson_is_str(name_of(v)))
			return qwen_wrong(r, "tool_choice", "allowed tool %zu "
			    "has no name", i + 1);
		if (known_tool(r, name_of(v)) == NULL)
			return -1;
	}
	return keep_named(r, names);
}

/* Tools require a template that lists them. */
static int
check_template(struct qwen_parser *r)
{
	return r->tools == NULL || qwen_template_names(r->s->template,
	    "tools") ? 0 : qwen_wrong(r, "tools", "the model's chat template "
	    "does not support tools");
}

/* With tools and a schema, the answer is a call or follows the schema. */
static int
call_or_answer(struct qwen_parser *r)
{
	const char *schema;
	char *text;
	size_t n;
	int rc;

	if (r->tools == NULL || (schema = qwen_parse_get_schema(r, &n)) ==
	    NULL || qwen_template_calls(r->s->template) == 0)
		return 0;
	if ((text = malloc(n + 1)) == NULL)
		return qwen_oom(&r->refusal->err);
	memcpy(text, schema, n);
	qwen_parse_drop_grammar(r);
	rc = qwen_parse_restrict_calls(r, NULL, text, n);
	free(text);
	return rc;
}

static int
read_choice(struct qwen_parser *r, yyjson_val *v)
{
	if (yyjson_equals_str(yyjson_obj_get(v, "type"), "allowed_tools") &&
	    read_allowed(r, v, &v) < 0)
		return -1;
	if (v == NULL || yyjson_equals_str(v, "auto"))
		return check_template(r) < 0 ? -1 : call_or_answer(r);
	if (yyjson_equals_str(v, "none")) {
		r->tools = NULL;
		return 0;
	}
	/* the answer is a call, so response_format does not apply */
	if (r->grammar_field != NULL && strcmp(r->grammar_field,
	    "response_format") == 0)
		qwen_parse_drop_grammar(r);
	if (r->grammar_field != NULL)
		return qwen_invalid(r, "tool_choice", "tool_choice and %s "
		    "cannot be combined", r->grammar_field);
	if (!yyjson_equals_str(v, "required"))
		return read_named(r, v);
	if (r->tools == NULL)
		return qwen_wrong(r, "tool_choice", "is required, but there "
		    "are no tools");
	return qwen_parse_restrict_calls(r, NULL, NULL, 0);
}

int
qwen_parse_tools(struct qwen_parser *r)
{
	yyjson_val *tools = qwen_parse_get(r->body, "tools");
	int many = qwen_read_truth(r, "parallel_tool_calls", 1);

	if (many < 0)
		return -1;
	r->tools = yyjson_arr_size(tools) > 0 ? tools : NULL;
	r->q->one_call = !many;
	return read_choice(r, qwen_parse_get(r->body, "tool_choice"));
}
