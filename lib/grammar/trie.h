/* SPDX-License-Identifier: ISC */
/* trie.h - inside of the tree of tokens. */
#ifndef QWEN_GRAMMAR_TRIE_H
#define QWEN_GRAMMAR_TRIE_H

#include "grammar/grammar.h"

/* A byte behind those of the nodes above it; in the order of a walk. */
struct qwen_tnode {
	unsigned char	byte;
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
};

#endif
