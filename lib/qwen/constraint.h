/* SPDX-License-Identifier: ISC */
/*
 * qwen/constraint.h - constrained output: the interface between samplers and
 * grammars.
 */
#ifndef QWEN_QWEN_CONSTRAINT_H
#define QWEN_QWEN_CONSTRAINT_H

#include "qwen/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A constraint: a set of texts, one of which the reply must be.  A grammar of
 * libqwentext is one (qwen_grammar_constraint); a program may implement its
 * own.  A sampler opens a match when its session begins and closes it when the
 * session ends.  One thread uses a match.  Any number of samplers and threads
 * read what `of' and `tokens' point to, so these must outlive them.
 */
struct qwen_constraint {
	const struct qwen_constraint_ops *ops;	/* NULL: no constraint */
	const void	*of;		/* the set of texts, for open */
	const void	*tokens;	/* the vocabulary, for open */
};

/* The progress of one text; each implementation defines its own. */
struct qwen_match;

/*
 * Functions that can fail return -1 or NULL and fill *err.  No size goes with
 * the table: a sampler calls every function in it, so it cannot grow; another
 * interface would have another table.
 */
struct qwen_constraint_ops {
	/* Creates a match of the empty text. */
	int	(*open)(struct qwen_match **out,
		    const struct qwen_constraint *c, struct qwen_err *err);
	void	(*close)(struct qwen_match *m);
	/* Resets the match to the empty text. */
	int	(*begin)(struct qwen_match *m, struct qwen_err *err);
	/*
	 * Appends n bytes: returns 1, or 0 without a change if no text of the
	 * set continues so.
	 */
	int	(*feed)(struct qwen_match *m, const char *s, size_t n,
		    struct qwen_err *err);
	/* Returns the same, but never changes the match. */
	int	(*fits)(struct qwen_match *m, const char *s, size_t n,
		    struct qwen_err *err);
	/* Returns 1 if the text may end here. */
	int	(*may_end)(const struct qwen_match *m);
	/*
	 * Returns one bit per token of the vocabulary, 64 per word, lowest
	 * first: 1 if the token's text fits.  Lives until the next call on the
	 * match.
	 */
	const uint64_t *(*mask)(struct qwen_match *m, struct qwen_err *err);
};

#ifdef __cplusplus
}
#endif

#endif
