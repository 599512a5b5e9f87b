/* SPDX-License-Identifier: ISC */
/* tools.h - tools in requests, and calls in answers. */
#ifndef QWEN_CHAT_TOOLS_H
#define QWEN_CHAT_TOOLS_H

#include "base/text.h"
#include <yyjson.h>

/* JSON types, a set; and their names, in the order of the bits. */
enum {
	QWEN_JSON_STRING = 1, QWEN_JSON_INTEGER = 2, QWEN_JSON_NUMBER = 4,
	QWEN_JSON_BOOLEAN = 8, QWEN_JSON_NULL = 16, QWEN_JSON_OBJECT = 32,
	QWEN_JSON_ARRAY = 64, QWEN_JSON_TYPES = 7
};

extern const char *const qwen_json_types[QWEN_JSON_TYPES];

/* Returns the type that a schema names so; 0 if there is none. */
unsigned qwen_json_type_named(yyjson_val *name);

/* Returns all types that a value has: a whole number has two. */
unsigned qwen_json_types_of(yyjson_val *v);

/*
 * Returns the object with name and parameters: the function of a tool, or the
 * tool itself.
 */
yyjson_val *qwen_chat_tool_function(yyjson_val *tool);

/*
 * Completes the beginning of a JSON text: drops an incomplete value at its end
 * and closes all brackets.  The result is JSON if the text could have become
 * JSON.
 */
void qwen_chat_close_json(struct qwen_text *out, const char *s, size_t n);

#endif
