/* SPDX-License-Identifier: ISC */
/*
 * anthropic_tools.c - the tools of a request to /v1/messages as functions.
 * Tools that Anthropic defines and clients run have a type in place of a
 * schema; their schemas are in this file.  Tools that Anthropic's servers run
 * are left out.
 */
#include <string.h>

#include "text/request/parser.h"

#define TEXT(key, about) \
	"\"" key "\":{\"type\":\"string\",\"description\":\"" about "\"}"
#define LINE(about) \
	"\"insert_line\":{\"type\":\"integer\",\"description\":\"" about "\"}"
#define RANGE "\"view_range\":{\"type\":\"array\",\"items\":{\"type\":" \
	"\"integer\"},\"description\":\"view: first and last line, from 1 on; " \
	"-1: to the end\"}"
#define COMMANDS(list) \
	"\"command\":{\"type\":\"string\",\"enum\":[" list "]}"
#define EDIT TEXT("file_text", "create: what the file is to have") "," \
	TEXT("old_str", "str_replace: the text to replace, which the file has " \
	"once") "," RANGE "," \
	LINE("insert: the line to insert after, 0: before all")
#define SCHEMA(fields, required) "{\"type\":\"object\",\"properties\":{" \
	fields "},\"required\":[" required "]}"

#define VIEW "\"view\",\"create\",\"str_replace\",\"insert\""
/* the field of insert's text: as of str_replace in the first versions */
#define NEW_STR TEXT("new_str", "str_replace, insert: the new text")
#define INSERT_TEXT TEXT("new_str", "str_replace: the new text") "," \
	TEXT("insert_text", "insert: the new text")
#define EDITOR(commands, text) SCHEMA(COMMANDS(commands) "," \
	TEXT("path", "of a file or a folder") "," EDIT "," text, \
	"\"command\",\"path\"")

/*
 * Tools that clients run, by prefixes of their types; the first match counts.
 */
static const struct {
	const char *type, *about, *schema;
} defined[] = {
	{ "bash_2", "Runs a command in a bash session, which lasts from call to "
	    "call.", SCHEMA(TEXT("command", "what to run") ",\"restart\":{"
	    "\"type\":\"boolean\",\"description\":\"true, and no command: "
	    "begin a new session\"}", "") },
	{ "text_editor_2024", "Shows, creates and edits text files.", EDITOR(
	    VIEW ",\"undo_edit\"", NEW_STR) },
	{ "text_editor_20250124", "Shows, creates and edits text files.", EDITOR(
	    VIEW ",\"undo_edit\"", NEW_STR) },
	{ "text_editor_20250429", "Shows, creates and edits text files.", EDITOR(
	    VIEW, NEW_STR) },
	{ "text_editor_2", "Shows, creates and edits text files.", EDITOR(
	    VIEW, INSERT_TEXT) },
	{ "memory_2", "Shows and changes files in /memories, which last from one "
	    "conversation to the next.", SCHEMA(
	    COMMANDS(VIEW ",\"delete\",\"rename\"") ","
	    TEXT("path", "of a file or a folder, for all but rename") ","
	    EDIT "," INSERT_TEXT ","
	    TEXT("old_path", "rename: what it is called") ","
	    TEXT("new_path", "rename: what it is to be called"),
	    "\"command\"") },
};

/* Returns the index in defined[] for a type; -1 if there is none. */
static int
find_defined(yyjson_val *type)
{
	size_t i;

	for (i = 0; i < sizeof defined / sizeof defined[0]; i++) {
		if (yyjson_is_str(type) && strncmp(yyjson_get_str(type),
		    defined[i].type, strlen(defined[i].type)) == 0)
			return (int)i;
	}
	return -1;
}

/*
 * Returns 1 for a type defined by Anthropic: it ends in the date of its
 * version, "web_search_20250305".
 */
static int
is_anthropic(yyjson_val *type)
{
	const char *s = yyjson_get_str(type);
	size_t n = yyjson_get_len(type);

	return yyjson_equals_str(type, "mcp_toolset") || (n > 9 && s[n - 9] ==
	    '_' && strspn(s + n - 8, "0123456789") == 8);
}

/* Adds a tool of the list as a function, or leaves it out. */
static int
add_tool(struct qwen_parser *r, yyjson_val *tool)
{
	yyjson_val *type = qwen_parse_has_type(tool, "custom") ? NULL :
	    qwen_parse_get(tool, "type");
	yyjson_val *name = qwen_parse_get_text(tool, "name");
	yyjson_val *schema = qwen_parse_get(tool, "input_schema");
	size_t i = r->nth + 1;
	int own = find_defined(type);

	if (type != NULL && !is_anthropic(type))
		return qwen_wrong(r, "tools", "tool %zu: unknown type %.40s",
		    i, yyjson_is_str(type) ? yyjson_get_str(type) : "?");
	if (type != NULL && own < 0)
		return qwen_parse_skip_type(r, "tools", "tools", type);
	if (name == NULL || yyjson_get_len(name) == 0)
		return qwen_wrong(r, "tools", "tool %zu has no name", i);
	if (schema != NULL && !yyjson_is_obj(schema))
		return qwen_wrong(r, "tools", "tool %zu: the input_schema is "
		    "not an object", i);
	qwen_json_put(&r->out, ",{'type':'function','function':{'name':%p",
	    name);
	if (own >= 0)
		qwen_json_put(&r->out, ",'description':'%s','parameters':%s",
		    defined[own].about, defined[own].schema);
	else {
		qwen_parse_copy(&r->out, tool, "description", "description");
		qwen_parse_copy(&r->out, tool, "input_schema", "parameters");
	}
	qwen_text_str(&r->out, "}}");
	return 0;
}

/* Leaves out fields for tools that Anthropic's servers run. */
static int
leave_servers(struct qwen_parser *r)
{
	static const char *const row[] = { "mcp_servers", "container" };
	yyjson_val *v;
	size_t i;

	for (i = 0; i < 2; i++) {
		v = qwen_parse_get(r->body, row[i]);
		if (v == NULL || (yyjson_is_arr(v) && yyjson_arr_size(v) == 0))
			continue;
		if (qwen_parse_skip(r, row[i], row[i]) < 0)
			return -1;
	}
	return 0;
}

static int
add_tools(struct qwen_parser *r)
{
	yyjson_val *tools = qwen_parse_get(r->body, "tools");

	if (tools == NULL)
		return 0;
	if (!yyjson_is_arr(tools))
		return qwen_wrong(r, "tools", "is not a list");
	return qwen_parse_each(r, ",'tools':[", tools, add_tool, "]");
}

static int
add_choice(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "tool_choice");
	yyjson_val *one = qwen_parse_get(v, "disable_parallel_tool_use");
	yyjson_val *name = qwen_parse_get_text(v, "name");

	if (v == NULL)
		return 0;
	if (one != NULL && !yyjson_is_bool(one))
		return qwen_wrong(r, "tool_choice", "disable_parallel_tool_use "
		    "is not true or false");
	if (qwen_parse_has_type(v, "tool") && name != NULL)
		qwen_json_put(&r->out, ",'tool_choice':{'type':'function',"
		    "'function':{'name':%p}}", name);
	else if (qwen_parse_has_type(v, "any"))
		qwen_json_put(&r->out, ",'tool_choice':'required'");
	else if (qwen_parse_has_type(v, "auto") ||
	    qwen_parse_has_type(v, "none"))
		qwen_parse_copy(&r->out, v, "type", "tool_choice");
	else
		return qwen_wrong(r, "tool_choice", "the type is not auto, "
		    "any, none, or tool with a name");
	if (yyjson_is_true(one))
		qwen_json_put(&r->out, ",'parallel_tool_calls':false");
	return 0;
}

int
qwen_parse_anthropic_tools(struct qwen_parser *r)
{
	return leave_servers(r) < 0 || add_tools(r) < 0 || add_choice(r) < 0 ?
	    -1 : 0;
}
