/* SPDX-License-Identifier: ISC */
/* parse.h - what the two halves of the parser share. */
#ifndef QWEN_CHAT_PARSE_H
#define QWEN_CHAT_PARSE_H

#include "text/chat/chat.h"
#include "text/chat/lex.h"

/*
 * After a failure, of which err tells, there are no more tokens, and each of
 * these functions goes on with nothing: look at failed once, at the end.  What
 * nodes are made then is the same one, and nothing of it counts.
 */
struct chat_parser {
	struct chat_lexer	 l;
	struct qwen_template	*t;
	struct qwen_err		*err;
	unsigned		 depth, loops;
	int			 failed;
	int			 names_caller;	/* since it was set to 0 */
	struct chat_node	 none;
};

/* The node that does not count. */
struct chat_node *qwen_chat_parse_fail(struct chat_parser *p, const char *fmt,
    ...) __attribute__((format(printf, 2, 3)));
/* n bytes that stay as long as the template; NULL and a failure. */
void *qwen_chat_parse_alloc(struct chat_parser *p, size_t n);
/* To the next token. */
void qwen_chat_advance(struct chat_parser *p);
struct chat_node *qwen_chat_node(struct chat_parser *p, enum chat_kind kind);
/* The text of the present token, ended by NUL. */
const char *qwen_chat_word(struct chat_parser *p);
/* Is it this sign, or this name?  And if so, past it; and so it must be. */
int qwen_chat_is(const struct chat_parser *p, const char *s);
int qwen_chat_pass(struct chat_parser *p, const char *s);
void qwen_chat_expect(struct chat_parser *p, const char *s);
/* The name that must be here; past it. */
const char *qwen_chat_expect_name(struct chat_parser *p);
/* One deeper, which may be too deep.  The caller counts back. */
void qwen_chat_deeper(struct chat_parser *p);

/*
 * Expressions: any; one or more with commas, then a tuple; without "x if y" at
 * the outside; the targets of for and set.
 */
struct chat_node *qwen_chat_expr(struct chat_parser *p);
struct chat_node *qwen_chat_exprs(struct chat_parser *p);
struct chat_node *qwen_chat_plain_expr(struct chat_parser *p);
struct chat_node *qwen_chat_target(struct chat_parser *p);

/* Filters of a block, with or without a | before the first. */
struct chat_node *qwen_chat_block_filters(struct chat_parser *p);

#endif
