/* SPDX-License-Identifier: ISC */
/*
 * grammar.h - a grammar as a graph over bytes, and a text's position in it.
 *
 * A rule is a graph that begins at a node and ends at a node of kind END.  A
 * text can be at many places at once; a place is a node with its enclosing
 * calls.  The sets of places are numbered as they occur, so that a byte that
 * leads from one set to another costs only a lookup the second time.
 */
#ifndef QWEN_GRAMMAR_GRAMMAR_H
#define QWEN_GRAMMAR_GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/pieces.h"
#include "qwentext.h"

enum {
	QWEN_GRAMMAR_NODES = 1 << 20,	/* plus two per byte of source */
	QWEN_GRAMMAR_RULES = 1 << 12,
	QWEN_GRAMMAR_BYTES = 1 << 23,	/* of source */
	QWEN_GRAMMAR_DEPTH = 256,	/* nesting of groups */
	QWEN_GRAMMAR_PLACES = 1 << 12,	/* at which a text is at once */
	QWEN_GRAMMAR_CALLS = 1 << 17,	/* distinct lists of calls */
	QWEN_GRAMMAR_SETS = 1 << 13,
	QWEN_GRAMMAR_HELD = 1 << 20,	/* places of all sets together */
	QWEN_GRAMMAR_WORK = 1 << 23,	/* places visited for one mask */
	QWEN_GRAMMAR_MASKS = 64,	/* masks that are kept */
};

enum qwen_gnode_kind {
	QWEN_GNODE_END,		/* the end of rule also */
	QWEN_GNODE_BYTE,	/* a byte lo .. hi, then next */
	QWEN_GNODE_SPLIT,	/* next or also */
	QWEN_GNODE_CALL,	/* rule also, then next */
};

struct qwen_gnode {
	unsigned char	kind, lo, hi;
	uint32_t	next, also;
};

struct qwen_grule {
	char		*name;
	size_t		 len;
	uint32_t	 start;		/* first node */
	int		 defined, nullable;
};

struct qwen_grammar {
	struct qwen_gnode *node;	/* node 0: end of the root rule */
	size_t		 n_nodes, cap_nodes;
	struct qwen_grule *rule;
	size_t		 n_rules, cap_rules;
	uint32_t	 root;		/* index of the rule */
};

/* Finds the nullable rules; -1 with *err set if a rule begins with itself. */
int qwen_grammar_check(struct qwen_grammar *g, struct qwen_err *err);

/*
 * A text's position in a grammar, for one thread; grammars and trees are
 * shared. qwen/constraint.h describes these functions.
 */
int qwen_match_new(struct qwen_match **out, const struct qwen_grammar *g,
    const struct qwen_trie *t, struct qwen_err *err);
void qwen_match_free(struct qwen_match *m);
int qwen_match_begin(struct qwen_match *m, struct qwen_err *err);
int qwen_match_feed(struct qwen_match *m, const char *s, size_t n,
    struct qwen_err *err);
int qwen_match_fits(struct qwen_match *m, const char *s, size_t n,
    struct qwen_err *err);
int qwen_match_may_end(const struct qwen_match *m);
const uint64_t *qwen_match_mask(struct qwen_match *m, struct qwen_err *err);

#endif
