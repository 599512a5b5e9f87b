/* SPDX-License-Identifier: ISC */
/* qwen/constraint.h - what a reply must be, as a sampler asks about it. */
#ifndef QWEN_QWEN_CONSTRAINT_H
#define QWEN_QWEN_CONSTRAINT_H

#include "qwen/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A set of texts, one of which a reply must be; a grammar of libqwentext is
 * one (qwen_grammar_constraint), and a program may bring its own.  A sampler
 * opens a match when its timeline begins and closes it when that ends: the
 * match is for one thread, while what `of` and `tokens` point to is read by
 * any number of samplers and threads, and must live as long as they do.
 */
struct qwen_constraint {
	const struct qwen_constraint_ops *ops;	/* NULL: any text will do */
	const void	*of;		/* for open: the set of texts, */
	const void	*tokens;	/* and the vocabulary */
};

/* How far a text has come; each kind of constraint has its own. */
struct qwen_match;

/*
 * Functions that can fail return -1, or NULL, and fill *err.  No size goes with
 * the table: a sampler calls every function in it, so it cannot grow, and
 * another kind of constraint will have another table.
 */
struct qwen_constraint_ops {
	/* A match of no text yet. */
	int	(*open)(struct qwen_match **out,
		    const struct qwen_constraint *c, struct qwen_err *err);
	void	(*close)(struct qwen_match *m);
	/* Back to no text. */
	int	(*begin)(struct qwen_match *m, struct qwen_err *err);
	/* Go on by n bytes: 1, or 0 if no text goes on so; then stay. */
	int	(*feed)(struct qwen_match *m, const char *s, size_t n,
		    struct qwen_err *err);
	/* The same answer, but stay in any case. */
	int	(*fits)(struct qwen_match *m, const char *s, size_t n,
		    struct qwen_err *err);
	/* Whether the text may end here. */
	int	(*may_end)(const struct qwen_match *m);
	/*
	 * A bit for each token of the vocabulary, 64 in a word, from the lowest
	 * up: 1 if its text fits.  Lives until the next call on the match.
	 */
	const uint64_t *(*mask)(struct qwen_match *m, struct qwen_err *err);
};

#ifdef __cplusplus
}
#endif

#endif
