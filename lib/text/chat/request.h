/* SPDX-License-Identifier: ISC */
/* request.h - converts a JSON request to the variables of a template. */
#ifndef QWEN_CHAT_REQUEST_H
#define QWEN_CHAT_REQUEST_H

#include "text/chat/chat.h"
#include <yyjson.h>

struct qwen_chat_request {
	yyjson_doc		**doc;		/* documents that hold the
						   values */
	size_t			 n_doc, cap_doc;
	struct chat_value	*messages;
	/* fields of the request; NULL: absent */
	const struct chat_value	*add_prompt, *continue_final;
	int			 repaired;	/* arguments were not an
						   object */
	int			 continues;	/* the reply continues the last
						   message */
	enum qwen_thinking	 thinking;	/* OPEN if it continues a
						   thought */
};

/*
 * Turns fields of the request into variables of r->scope.  Messages get the
 * roles and fields that templates know.  With parse set, arguments that are
 * strings become objects.  Close q in any case.
 */
int qwen_chat_open_request(struct qwen_chat_request *q, struct chat_exec *r,
    const char *json, size_t n, int parse);
void qwen_chat_close_request(struct qwen_chat_request *q);

/*
 * Adapts messages for a template that failed on them: missing or null contents
 * become empty, lists of text parts (also empty ones) become one text,
 * arguments of calls become objects.
 */
int qwen_chat_adapt_contents(struct chat_exec *r, struct chat_value *messages);

/*
 * Fails if the prompt lacks a message: one without a role, or with a role that
 * the template's source does not mention although it uses roles.  Else returns
 * 0.
 */
int qwen_chat_check_ignored(struct chat_exec *r,
    const struct chat_value *messages, const char *source);

/*
 * Converts JSON to a value that borrows its strings; fails if it is nested too
 * deeply.
 */
struct chat_value qwen_chat_convert(struct chat_exec *r, yyjson_val *json,
    unsigned depth);

/*
 * Joins text parts into one text, with between them; content with other parts
 * is unchanged.
 */
void qwen_chat_join_parts(struct chat_exec *r, struct chat_value *content,
    const char *between);

/*
 * contents.c: joins lists of text parts for roles for which the template does
 * not accept a list; null becomes an empty text, except in messages of the
 * assistant.
 */
int qwen_chat_contents(struct chat_exec *r, struct chat_value *messages);

/*
 * arguments.c: makes the arguments of a call an object; nothing becomes {}.
 * With parse set, strings are parsed: of truncated JSON the readable part is
 * used, and anything but an object becomes the value of "input", as
 * qwen_chat_wrap returns it.
 */
void qwen_chat_arguments(struct qwen_chat_request *q, struct chat_exec *r,
    struct chat_value *v, int parse);
struct chat_value qwen_chat_wrap(struct chat_exec *r,
    const struct chat_value *v);

/*
 * systems.c: moves system messages to where the template accepts them, as
 * r->t->systems says. force 1: as if the template accepted them only at the
 * start; 2: and never adds a user message. *folds: force may help.
 */
int qwen_chat_place_systems(struct chat_exec *r, struct chat_value *messages,
    int force, int *folds);

/* systems.c: adds a user message at the end. */
int qwen_chat_add_user(struct chat_exec *r, struct chat_value *messages);

/*
 * continue.c: marks the end of the last message if the reply continues it;
 * after the run, truncates the prompt there.
 */
int qwen_chat_continue(struct qwen_chat_request *q, struct chat_exec *r);
int qwen_chat_cut(const struct qwen_chat_request *q, struct chat_exec *r);

/*
 * template.c: renders a template with a request of our own, without changes to
 * it.  Returns 0 and its text, for qwen_chat_buf_fini(); -1 with err.
 */
int qwen_chat_probe(const struct qwen_template *t, const char *json, size_t n,
    struct chat_buf *out, struct qwen_err *err);

/* Keeps a document until the request is closed; -1: no memory, it is freed. */
int qwen_chat_keep(struct qwen_chat_request *q, struct chat_exec *r,
    yyjson_doc *doc);

/* Parses JSON with numbers as strings; what names it in the message. */
int qwen_chat_read(yyjson_doc **out, const char *json, size_t n,
    const char *what, struct qwen_err *err);
/* The same for what may not be JSON.  Returns 1; 0 if it is not; -1. */
int qwen_chat_try_json(yyjson_doc **out, const char *json, size_t n,
    struct qwen_err *err);

#endif
