/* SPDX-License-Identifier: ISC */
/* tools.h - tools in requests, and calls in answers. */
#ifndef QWEN_CHAT_TOOLS_H
#define QWEN_CHAT_TOOLS_H

#include "base/text.h"
#include <yyjson.h>

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
