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
	/* fields of the request, NULL: not given */
	const struct chat_value	*add_prompt, *continue_final;
	int			 repaired;	/* arguments were no object */
	int			 continues;	/* the reply continues the last
						   message, and then */
	enum qwen_thinking	 thinking;	/* its thought, or its text */
};

/*
 * Fields of the request become variables of r->scope.  Messages have the roles
 * and fields that templates know, and with parse set, arguments of calls that are a
 * text become objects.  Close in any case.
 */
int qwen_chat_open_request(struct qwen_chat_request *q, struct chat_exec *r,
    const char *json, size_t n, int parse);
void qwen_chat_close_request(struct qwen_chat_request *q);

/*
 * For a template that failed on what it does not expect: contents that are
 * missing or null become empty, lists of text parts, also of none, one text, and
 * arguments of calls objects.
 */
int qwen_chat_put_right(struct chat_exec *r, struct chat_value *messages);

/*
 * Whether the prompt that a template of this source made lacks a message: one
 * without a role, or of a role that the template does not speak of though it
 * goes by roles.  0; or -1.
 */
int qwen_chat_check_lost(struct chat_exec *r, const struct chat_value *messages,
    const char *source);

/* JSON as a value, whose texts are the JSON's; fails if too deep. */
struct chat_value qwen_chat_convert(struct chat_exec *r, yyjson_val *json,
    unsigned depth);

/* Parts of text as one text, with this between; content with others stays. */
void qwen_chat_unite(struct chat_exec *r, struct chat_value *content,
    const char *between);

/*
 * contents.c: lists of text parts become one text in messages of roles for which
 * the template does not take a list, and null a text, except the assistant's.
 */
int qwen_chat_contents(struct chat_exec *r, const struct qwen_template *t,
    struct chat_value *messages);

/*
 * arguments.c: arguments of a call as an object; nothing is {}.  Texts are read
 * with parse set: of JSON that was cut the readable part counts, and what is no
 * object is the value of "input".  wrap: the same of other values.
 */
void qwen_chat_arguments(struct qwen_chat_request *q, struct chat_exec *r,
    struct chat_value *v, int parse);
void qwen_chat_wrap(struct chat_exec *r, struct chat_value *v);

/*
 * order.c: put system messages where the template takes them, as t->systems
 * says.  force 1: whatever it seems to take; 2: and no turn of the user is added.
 * *folds: force may help.
 */
int qwen_chat_systems(struct chat_exec *r, const struct qwen_template *t,
    struct chat_value *messages, int force, int *folds);

/* order.c: a user's question after all others. */
int qwen_chat_ask(struct chat_exec *r, struct chat_value *messages);

/*
 * continue.c: mark where the last message ends if the reply continues it; and
 * after the run, cut the prompt there.
 */
int qwen_chat_continue(struct qwen_chat_request *q, struct chat_exec *r,
    const struct qwen_template *t);
int qwen_chat_cut(const struct qwen_chat_request *q, struct chat_exec *r);

/*
 * template.c: run a template with a request of our own, as it is: 0 and its text,
 * for qwen_chat_buf_fini(); -1 and err.
 */
int qwen_chat_try(const struct qwen_template *t, const char *json, size_t n,
    struct chat_buf *out, struct qwen_err *err);

/* JSON, its numbers as they are written; what: for the message. */
int qwen_chat_read(yyjson_doc **out, const char *json, size_t n,
    const char *what, struct qwen_err *err);

#endif
