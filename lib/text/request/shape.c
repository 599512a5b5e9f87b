/* SPDX-License-Identifier: ISC */
/*
 * shape.c - checks the JSON types of the fields of a chat request that a
 * template gets, for requests in files and in batches.  With other types,
 * templates fail or write nonsense.
 */
#include "base/err.h"
#include "text/chat/tools.h"
#include "text/request/parser.h"

#define wrong_shape(err, ...) qwen_fail(err, QWEN_EFORMAT, __VA_ARGS__)

/* Returns the name of a tool, or of a call's tool; NULL if there is none. */
static const char *
name_of(yyjson_val *tool)
{
	yyjson_val *name = yyjson_obj_get(qwen_chat_tool_function(tool),
	    "name");

	return yyjson_get_len(name) > 0 ? yyjson_get_str(name) : NULL;
}

int
qwen_parse_check_tools(yyjson_val *tools, struct qwen_err *err)
{
	yyjson_val *tool, *type;
	size_t i, n;

	if (tools == NULL || yyjson_is_null(tools))
		return 0;
	if (!yyjson_is_arr(tools))
		return wrong_shape(err, "tools: is not a list");
	yyjson_arr_foreach(tools, i, n, tool) {
		type = yyjson_obj_get(tool, "type");
		if (yyjson_is_str(type) &&
		    !yyjson_equals_str(type, "function"))
			return qwen_fail(err, QWEN_EUNSUP, "tools: tool %zu: "
			    "type %.40s is not supported (function only)", i +
			    1, yyjson_get_str(type));
		if (name_of(tool) == NULL)
			return wrong_shape(err, "tools: tool %zu has no "
			    "function with a name", i + 1);
	}
	return 0;
}

/* Parts of messages must be text, or images if the model reads them. */
static int
check_parts(yyjson_val *content, size_t at, int images, struct qwen_err *err)
{
	yyjson_val *part, *type;
	size_t i, n;

	yyjson_arr_foreach(content, i, n, part) {
		type = yyjson_obj_get(part, "type");
		if (yyjson_equals_str(type, "refusal") &&
		    yyjson_is_str(yyjson_obj_get(part, "refusal")))
			continue;
		if (images && qwen_parse_is_image(part))
			continue;
		if (yyjson_is_str(type) && !yyjson_equals_str(type, "text"))
			return qwen_fail(err, QWEN_EUNSUP, "message %zu: parts "
			    "of type %.40s are not supported (text only)%s", at,
			    yyjson_get_str(type), qwen_parse_part_hint(part));
		if (!yyjson_is_str(yyjson_obj_get(part, "text")))
			return wrong_shape(err, "message %zu: part %zu is not "
			    "an object with a text", at, i + 1);
	}
	return 0;
}

static int
check_calls(yyjson_val *calls, size_t at, struct qwen_err *err)
{
	yyjson_val *call, *v;
	size_t i, n;

	if (calls != NULL && !yyjson_is_arr(calls))
		return wrong_shape(err, "message %zu: tool_calls is not a list",
		    at);
	yyjson_arr_foreach(calls, i, n, call) {
		v = qwen_parse_get(qwen_chat_tool_function(call), "arguments");
		if (name_of(call) == NULL)
			return wrong_shape(err, "message %zu: tool call %zu "
			    "has no function with a name", at, i + 1);
		if (v != NULL && !yyjson_is_str(v) && !yyjson_is_obj(v))
			return wrong_shape(err, "message %zu: tool call %zu: "
			    "the arguments are neither an object nor a string",
			    at, i + 1);
	}
	return 0;
}

/* function_call, the older form of tool_calls, with one call. */
static int
check_function_call(yyjson_val *call, size_t at, struct qwen_err *err)
{
	yyjson_val *name = yyjson_obj_get(call, "name");
	yyjson_val *v = qwen_parse_get(call, "arguments");

	if (call == NULL || (yyjson_get_len(name) > 0 && yyjson_is_str(name) &&
	    (v == NULL || yyjson_is_str(v) || yyjson_is_obj(v))))
		return 0;
	return wrong_shape(err, "message %zu: function_call has no name, or "
	    "its arguments are neither an object nor a string", at);
}

static int
check_message(yyjson_val *m, size_t at, int images, struct qwen_err *err)
{
	yyjson_val *role = yyjson_obj_get(m, "role");
	yyjson_val *content = qwen_parse_get(m, "content");

	if (!yyjson_is_obj(m))
		return wrong_shape(err, "message %zu is not an object", at);
	if (!yyjson_is_str(role) || yyjson_get_len(role) == 0)
		return wrong_shape(err, "message %zu has no role", at);
	if (content != NULL && !yyjson_is_str(content) &&
	    !yyjson_is_arr(content))
		return wrong_shape(err, "message %zu: the content is neither a "
		    "string nor a list of parts", at);
	if (check_parts(content, at, images, err) < 0 || check_function_call(
	    qwen_parse_get(m, "function_call"), at, err) < 0)
		return -1;
	return check_calls(qwen_parse_get(m, "tool_calls"), at, err);
}

static int
check_messages(yyjson_val *messages, int images, struct qwen_err *err)
{
	yyjson_val *m;
	size_t i, n;

	if (messages != NULL && !yyjson_is_arr(messages))
		return wrong_shape(err, "messages: is not a list");
	yyjson_arr_foreach(messages, i, n, m) {
		if (check_message(m, i + 1, images, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_parse_check_shape(yyjson_val *request, int images, const char **member,
    struct qwen_err *err)
{
	static const char kwargs[] = "chat_template_kwargs";
	yyjson_val *more = qwen_parse_get(request, kwargs);

	*member = "messages";
	if (check_messages(qwen_parse_get(request, "messages"), images,
	    err) < 0)
		return -1;
	*member = "tools";
	if (qwen_parse_check_tools(qwen_parse_get(request, "tools"), err) < 0)
		return -1;
	*member = kwargs;
	if (more != NULL && !yyjson_is_obj(more))
		return wrong_shape(err, "%s: is not an object", kwargs);
	return 0;
}
