/* SPDX-License-Identifier: ISC */
/* trie.h - the vocabulary as a tree of bytes. */
#ifndef QWEN_GRAMMAR_TRIE_H
#define QWEN_GRAMMAR_TRIE_H

#include "text/grammar/grammar.h"

/*
 * A text is plain if it consists of whole characters without ", \ and control
 * characters.  Nearly all tokens are plain.  Where the grammar allows N plain
 * characters, whichever they are, all plain tokens of at most N characters are
 * allowed without being tried.
 */
enum { QWEN_PLAIN_MAX = 32, QWEN_PLAIN_MASKS = 6, QWEN_NOT_PLAIN = 255 };

/* A byte that follows the bytes of the nodes above.  Nodes are in preorder. */
struct qwen_tnode {
	unsigned char	byte;
	unsigned char	plain;		/* most characters of a token that ends
					   here or below; QWEN_NOT_PLAIN: one of
					   these tokens is not plain */
	uint32_t	depth;
	uint32_t	end;		/* first node after those below */
	int32_t		id;		/* a token that ends here, or -1 */
};

struct qwen_trie {
	struct qwen_tnode *node;
	size_t		 n;
	int32_t		*same;		/* by token: another token of the same
					   text, or -1 */
	size_t		 n_vocab;
	size_t		 deepest;
	/* masks of the plain tokens of at most 1, 2, 4 ... characters */
	uint64_t	*plain[QWEN_PLAIN_MASKS];
};

#endif
