/* SPDX-License-Identifier: ISC */
/* parse.h - what the two halves of the parser share. */
#ifndef QWEN_CHAT_PARSE_H
#define QWEN_CHAT_PARSE_H

#include "text/chat/chat.h"
#include "text/chat/lex.h"

struct chat_parser {
	struct chat_lexer	 l;
	struct qwen_template	*t;
	struct qwen_err		*err;
	unsigned		 depth, loops;
};

/* A list being made: where its next node goes. */
struct chat_tail {
	struct chat_node	**end;
};

int qwen_chat_parse_fail(struct chat_parser *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* n bytes that stay as long as the template; NULL and an error. */
void *qwen_chat_parse_alloc(struct chat_parser *p, size_t n);
/* To the next token. */
int qwen_chat_advance(struct chat_parser *p);
struct chat_node *qwen_chat_node(struct chat_parser *p, enum chat_kind kind);
/* The text of the present token, ended by NUL. */
const char *qwen_chat_word(struct chat_parser *p);
/* Is it this sign, or this name? */
int qwen_chat_is_sign(const struct chat_parser *p, const char *s);
int qwen_chat_is_name(const struct chat_parser *p, const char *s);
/* The sign must be here; past it. */
int qwen_chat_expect(struct chat_parser *p, const char *sign);
/* One deeper: -1 and an error if that is too deep.  The caller counts back. */
int qwen_chat_deeper(struct chat_parser *p);

/*
 * Expressions: any; one or more with commas, then a tuple; without "x if y" at
 * the outside; the targets of for and set.
 */
struct chat_node *qwen_chat_expr(struct chat_parser *p);
struct chat_node *qwen_chat_exprs(struct chat_parser *p);
struct chat_node *qwen_chat_plain_expr(struct chat_parser *p);
struct chat_node *qwen_chat_target(struct chat_parser *p);

#endif
