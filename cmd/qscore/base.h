/* SPDX-License-Identifier: ISC */
/*
 * base.h - compare a model with another model, with logits that another model
 * wrote, or with a saved state.
 */
#ifndef QSCORE_BASE_H
#define QSCORE_BASE_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "base/text.h"

struct qscore_run;

/* Statistics over all compared tokens.  kl and diff have n elements. */
struct qscore_stats {
	size_t	 n, cap;
	double	*kl, *diff;	/* KL divergence; and probability of the token
				   by the model minus that by the base */
	size_t	 n_same;	/* rows with the same best token */
	/*
	 * sums of the negative log-probabilities, of their squares, and of the
	 * products of both models
	 */
	double	 nll, base_nll, square, base_square, product;
};

/* The base that a model is compared with. */
struct qscore_base {
	const char		*path;		/* --base, set by the caller */
	const char		*name;		/* path in messages */
	size_t			 batch;
	struct qwen_model	*model;		/* of the base, or NULL if */
	struct qwen_reader	*rows;		/* rows of logits are the
						   base */
	int			 fd;
	struct qwen_session	*base, *own;	/* sessions of model and of the
						   model to be judged */
	size_t			 n_past;	/* tokens of the base state,
						   before each text; 0: no
						   state */
	size_t			 n_vocab, n_chunk;	/* n_chunk: rows per
							   pass */
	float			*row;		/* [n_chunk][n_vocab], of the
						   base */
	uint64_t		 last;		/* position of the last text's
						   last token, whose row
						   predicts nothing */
	struct qscore_stats	 sum;
};

/*
 * Open the base: a model file, a state, or a stream of logits.  Call it before
 * the context is chosen: only two model files allow texts of several windows.
 * Dies on errors.
 */
void qscore_base_open(struct qscore_base *b, const struct qscore_run *r);
void qscore_base_close(struct qscore_base *b);

/*
 * Compare all texts of the source, one after another, and write the statistics.
 * Dies on errors.
 */
void qscore_compare_all(struct qscore_base *b, struct qscore_run *r);

/* Add a pair of rows to the statistics. */
void qscore_add_pair(struct qscore_stats *j, const struct qwen_row_pair *p);

/* Append ,"key":x to t; infinity becomes null, since JSON cannot express it. */
void qscore_number(struct qwen_text *t, const char *key, double x);

/* Append all statistics to t, as JSON if json is set.  Sorts kl and diff. */
void qscore_write_stats(struct qscore_stats *j, int json, struct qwen_text *t);

#endif
