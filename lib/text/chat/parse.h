/* SPDX-License-Identifier: ISC */
/* parse.h - shared by the two halves of the parser. */
#ifndef QWEN_CHAT_PARSE_H
#define QWEN_CHAT_PARSE_H

#include "text/chat/chat.h"
#include "text/chat/lex.h"

/*
 * After a failure, described in err, the lexer returns no more tokens, and all
 * of these functions return a dummy node and do nothing.  So it is enough to
 * check failed once at the end.
 */
struct chat_parser {
	struct chat_lexer	 l;
	struct qwen_template	*t;
	struct qwen_err		*err;
	unsigned		 depth, loops;
	int			 failed;
	int			 names_caller;	/* the name caller occurred
						   since this was set to 0 */
	/* the dummy node */
	struct chat_node	 none;
};

/* Fails; returns the dummy node. */
struct chat_node *qwen_chat_parse_fail(struct chat_parser *p, const char *fmt,
    ...) __attribute__((format(printf, 2, 3)));
/* Returns n bytes that live as long as the template; fails with NULL. */
void *qwen_chat_parse_alloc(struct chat_parser *p, size_t n);
/* Advances to the next token. */
void qwen_chat_advance(struct chat_parser *p);
struct chat_node *qwen_chat_node(struct chat_parser *p, enum chat_kind kind);
/* Returns the text of the current token, with a terminating NUL. */
const char *qwen_chat_word(struct chat_parser *p);
/*
 * qwen_chat_is returns 1 if the current token is this sign or name.
 * qwen_chat_pass also advances past it then. qwen_chat_expect fails if it is
 * another token.
 */
int qwen_chat_is(const struct chat_parser *p, const char *s);
int qwen_chat_pass(struct chat_parser *p, const char *s);
void qwen_chat_expect(struct chat_parser *p, const char *s);
/* Returns the name that must follow, and advances past it. */
const char *qwen_chat_expect_name(struct chat_parser *p);
/*
 * Counts a level of nesting; fails if there are too many.  The caller
 * decrements p->depth later.
 */
void qwen_chat_deeper(struct chat_parser *p);

/*
 * Expressions: any; one or more with commas, which make a tuple; one without an
 * outer "x if y"; the target of a for or set.
 */
struct chat_node *qwen_chat_expr(struct chat_parser *p);
struct chat_node *qwen_chat_exprs(struct chat_parser *p);
struct chat_node *qwen_chat_plain_expr(struct chat_parser *p);
struct chat_node *qwen_chat_target(struct chat_parser *p);

/* Filters of a block, with or without "|" before the first. */
struct chat_node *qwen_chat_block_filters(struct chat_parser *p);

#endif
