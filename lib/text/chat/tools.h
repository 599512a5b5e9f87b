/* SPDX-License-Identifier: ISC */
/* tools.h - tools as requests have them, and calls as answers have them. */
#ifndef QWEN_CHAT_TOOLS_H
#define QWEN_CHAT_TOOLS_H

#include "base/text.h"
#include <yyjson.h>

/* What has the name and the parameters: the function of a tool, or the tool. */
yyjson_val *qwen_chat_tool_function(yyjson_val *tool);

/* Whether a parameter of this schema, which may be NULL, can be any text. */
int qwen_chat_is_text(yyjson_val *schema);

/*
 * The beginning of a JSON text, with what is not complete at its end left out,
 * and all its brackets closed.  It is JSON if the text was going to be JSON.
 */
void qwen_chat_close(struct qwen_text *out, const char *s, size_t n);

#endif
