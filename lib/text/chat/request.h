/* SPDX-License-Identifier: ISC */
/* request.h - a request in JSON as the variables of a template. */
#ifndef QWEN_CHAT_REQUEST_H
#define QWEN_CHAT_REQUEST_H

#include "text/chat/chat.h"
#include <yyjson.h>

struct qwen_chat_request {
	yyjson_doc		**doc;		/* that the values are of */
	size_t			 n_doc, cap_doc;
	struct chat_value	*messages;
};

/*
 * The request's members become variables of r->scope; with arguments set,
 * arguments of calls that are JSON strings are read.  Close in any case.
 */
int qwen_chat_open_request(struct qwen_chat_request *q, struct chat_run *r,
    const char *json, size_t n, int arguments);
void qwen_chat_close_request(struct qwen_chat_request *q);

/*
 * For a template that failed on what it does not expect: contents that are
 * missing or null become empty, lists of text parts, also of none, one text.
 */
int qwen_chat_put_right(struct chat_run *r, struct chat_value *messages);

/*
 * Whether the prompt that a template of this source made lacks a message: one
 * without a role, or of a role that the template does not speak of though it
 * goes by roles.  0; or -1.
 */
int qwen_chat_check_lost(struct chat_run *r, const struct chat_value *messages,
    const char *source);

/* JSON, its numbers as they are written; what: for the message. */
int qwen_chat_read(yyjson_doc **out, const char *json, size_t n,
    const char *what, struct qwen_err *err);

#endif
