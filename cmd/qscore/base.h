/* SPDX-License-Identifier: ISC */
/*
 * base.h - a model beside another one, beside the logits that one wrote, or
 * beside a state.
 */
#ifndef QSCORE_BASE_H
#define QSCORE_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "base/text.h"

struct qscore_run;

/* What the places have in common that were compared so far. */
struct qscore_judged {
	size_t	 n, cap;
	double	*kl, *diff;	/* of each: the divergence; by how much the
				   model's probability of the token is higher */
	size_t	 n_same;	/* that have the same best token */
	/* of minus the logarithms, sums, and sums of products */
	double	 nll, base_nll, square, base_square, product;
};

/* What a model is measured by. */
struct qscore_base {
	const char		*path;		/* --base, set by the caller */
	const char		*name;		/* of it, in messages */
	size_t			 batch;
	struct qwen_model	*model;		/* or NULL, and then */
	struct qwen_reader	*rows;		/* these */
	int			 fd;
	struct qwen_session	*base, *own;	/* model's, and who is judged */
	size_t			 n_past;	/* tokens of a state, before each
						   text; 0: there is none */
	size_t			 n_vocab, n_chunk;	/* rows at a time */
	float			*row;		/* [n_chunk][n_vocab] base's */
	uint64_t		 last;		/* of rows: after that, none of
						   the text is of use */
	struct qscore_judged	 sum;
};

/*
 * Open it: a model or a state, where the file is one, else a stream of logits.
 * Before the context is chosen: without a second model's file, texts are in one
 * window.  Dies.
 */
void qscore_base_open(struct qscore_base *b, const struct qscore_run *r);
void qscore_base_close(struct qscore_base *b);

/* All texts of the source, one after another, and the figures.  Dies. */
void qscore_compare_all(struct qscore_base *b, struct qscore_run *r);

/* Note one more place. */
void qscore_judge(struct qscore_judged *j, const struct qwen_row_pair *p);

/* All of them, in figures; kl and diff are sorted for it. */
void qscore_verdict(struct qscore_judged *j, int json, struct qwen_text *t);

#endif
