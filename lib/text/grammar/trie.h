/* SPDX-License-Identifier: ISC */
/* trie.h - inside of the tree of tokens. */
#ifndef QWEN_GRAMMAR_TRIE_H
#define QWEN_GRAMMAR_TRIE_H

#include "text/grammar/grammar.h"

/*
 * Plain texts are whole characters that stand for themselves in a string of
 * JSON, and in most other places where there may be any.  Of a vocabulary they are
 * nearly all: where so many characters may be anything, none of them has to be
 * tried.
 */
enum { QWEN_PLAIN_MAX = 32, QWEN_PLAIN_MASKS = 6, QWEN_NOT_PLAIN = 255 };

/* A byte after those of the nodes above it; in the order of a walk. */
struct qwen_tnode {
	unsigned char	byte;
	unsigned char	plain;		/* characters of the longest token from
					   here on, if all are plain */
	uint32_t	depth;
	uint32_t	end;		/* the first node not below this one */
	int32_t		id;		/* a token that ends here, or -1 */
};

struct qwen_trie {
	struct qwen_tnode *node;
	size_t		 n;
	int32_t		*same;		/* another token of the same text, or
					   -1; by token */
	size_t		 n_vocab;
	size_t		 deepest;
	/* plain tokens of 1, 2, 4 ... characters at most */
	uint64_t	*plain[QWEN_PLAIN_MASKS];
};

#endif
