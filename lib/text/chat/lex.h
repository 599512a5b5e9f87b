/* SPDX-License-Identifier: ISC */
/* lex.h - splits a template into text, tags, and the tokens inside tags. */
#ifndef QWEN_CHAT_LEX_H
#define QWEN_CHAT_LEX_H

#include <stddef.h>

#include "qwentext.h"

enum chat_token {
	CHAT_T_END,		/* of the template */
	CHAT_T_DATA,		/* text outside of tags */
	CHAT_T_PRINT,		/* {{ */
	CHAT_T_PRINT_END,
	CHAT_T_BLOCK,		/* {% */
	CHAT_T_BLOCK_END,
	CHAT_T_NAME, CHAT_T_STRING, CHAT_T_INT, CHAT_T_FLOAT,
	CHAT_T_SIGN,		/* operator or bracket, up to 2 bytes */
};

struct chat_lexer {
	const char	*p, *end;
	unsigned	 line;
	char		 open[100];	/* closing brackets of those open in the
					   tag */
	size_t		 n_open;
	int		 in_tag;	/* CHAT_T_PRINT, CHAT_T_BLOCK or 0 */
	int		 line_start;	/* the next text begins a line */
	/* the current token */
	enum chat_token	 type;
	const char	*s;		/* string: with escapes, without quotes */
	size_t		 n;
	unsigned	 at;		/* its line */
};

void qwen_chat_lex(struct chat_lexer *l, const char *source, size_t n);

/* Is c a letter, a digit or _, of which names consist? */
static inline int
chat_is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c >= '0' && c <= '9') || c == '_';
}

/* Advances to the next token. */
int qwen_chat_next(struct chat_lexer *l, struct qwen_err *err);

#endif
