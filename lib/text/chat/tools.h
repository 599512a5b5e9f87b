/* SPDX-License-Identifier: ISC */
/* tools.h - tools as requests have them. */
#ifndef QWEN_CHAT_TOOLS_H
#define QWEN_CHAT_TOOLS_H

#include <yyjson.h>

/* What has the name and the parameters: the function of a tool, or the tool. */
yyjson_val *qwen_chat_tool_function(yyjson_val *tool);

/* Whether a parameter of this schema, which may be NULL, can be any text. */
int qwen_chat_is_text(yyjson_val *schema);

#endif
