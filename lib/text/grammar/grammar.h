/* SPDX-License-Identifier: ISC */
/*
 * grammar.h - a grammar as a graph over bytes, and where a text is in it.
 *
 * A rule is a graph that begins at a node and ends at one of kind END.  A text
 * is at a set of places at once, each a node and the calls that it is in; such
 * sets are numbered as they are met, so that the second time a byte leads from
 * one to another costs a look-up.
 */
#ifndef QWEN_GRAMMAR_GRAMMAR_H
#define QWEN_GRAMMAR_GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/pieces.h"
#include "qwentext.h"

enum {
	QWEN_GRAMMAR_NODES = 1 << 20,	/* beside two for each byte of source */
	QWEN_GRAMMAR_RULES = 1 << 12,
	QWEN_GRAMMAR_BYTES = 1 << 23,	/* of source */
	QWEN_GRAMMAR_DEPTH = 256,	/* of brackets in it */
	QWEN_GRAMMAR_PLACES = 1 << 12,	/* at which a text may be at once */
	QWEN_GRAMMAR_CALLS = 1 << 17,	/* met while a text is followed */
	QWEN_GRAMMAR_SETS = 1 << 13,
	QWEN_GRAMMAR_HELD = 1 << 20,	/* places of all sets together */
	QWEN_GRAMMAR_WORK = 1 << 23,	/* places looked at for a mask */
	QWEN_GRAMMAR_MASKS = 64,	/* that are kept */
};

enum qwen_gnode_kind {
	QWEN_GNODE_END,		/* of the rule also */
	QWEN_GNODE_BYTE,	/* lo .. hi, then next */
	QWEN_GNODE_SPLIT,	/* next or also */
	QWEN_GNODE_CALL,	/* the rule also, then next */
};

struct qwen_gnode {
	unsigned char	kind, lo, hi;
	uint32_t	next, also;
};

struct qwen_grule {
	char		*name;
	size_t		 len;
	uint32_t	 start;		/* its first node */
	int		 defined, nullable;
};

struct qwen_grammar {
	struct qwen_gnode *node;	/* node 0 is an END, of none */
	size_t		 n_nodes, cap_nodes;
	struct qwen_grule *rule;
	size_t		 n_rules, cap_rules;
	uint32_t	 root;		/* a rule */
};

/* Nullable rules; -1 and an error for one that begins with itself. */
int qwen_grammar_check(struct qwen_grammar *g, struct qwen_err *err);

/*
 * Where a text is: one is for one thread, the grammar and tree are shared.  What
 * the functions do is in qwen/constraint.h.
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
