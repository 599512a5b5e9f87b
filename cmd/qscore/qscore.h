/* SPDX-License-Identifier: ISC */
/*
 * qscore.h - score the tokens of texts; texts longer than the context are read
 * in overlapping windows.
 */
#ifndef QSCORE_H
#define QSCORE_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "tool/tool.h"
#include "text/request/request.h"

/* A text and its results. */
struct qscore_text {
	struct tool_input	 item;
	const char		*name;	/* name of a file; NULL for a request */
	struct qscore_run	*run;
	uint64_t		 line;
	struct qwen_score_request q;
	struct tool_spans	 spans;		/* images in the text */
	double			*logprob;	/* of the tokens from .. n -
						   1 */
	uint32_t		*rank;
	struct qwen_sample_top	*top;	/* n_top per token */
	size_t			 at;	/* first token to score in the next
					   window */
};

/* Sums over scored tokens. */
struct qscore_sums {
	size_t	 n_tokens;	/* all tokens, also unscored ones */
	size_t	 n;
	double	 logprob, square;	/* sums of logprob and of its square */
	size_t	 greedy;	/* tokens that greedy sampling would choose */
	uint64_t bytes;		/* of the tokens' text */
};

struct qscore_run {
	struct tool_queue	 queue;
	uint64_t		 n_tokens;	/* scored */
	struct tool_work	 work;
	struct qwen_scoring	 how;
	size_t			 context, stride;
	int			 per_token;	/* print each token */
	size_t			 n_top;	/* and its n_top best alternatives */
	int			 json;	/* files as JSON; requests always are */
	int			 table;	/* print a heading first */
	struct cli_output	*out;
	struct qscore_sums	 total;
};

/* The tokens begin .. end - 1 of a text; those from first on are scored. */
struct qscore_window {
	size_t	 begin, first, end;
};

/*
 * Set *w to the next window and advance x->at, which must be below the text's
 * length.  Each token is scored once, after at least context - stride tokens,
 * or after all tokens before it.
 */
void qscore_next_window(const struct qscore_run *r, struct qscore_text *x,
    struct qscore_window *w);

/* Return the bytes of a token, valid until the next call. */
struct qwen_str qscore_spell(const struct qscore_run *r, int32_t id);

/* Begin to score a text, and score all texts of the queue.  Die on errors. */
void qscore_begin(struct qscore_run *r, struct qscore_text *x);
void qscore_all(struct qscore_run *r);

/* Write t to the output and empty it. */
void qscore_write(const struct qscore_run *r, struct qwen_text *t);

/* Add the result of a text to t, as text or JSON, and to sums. */
void qscore_result(const struct qscore_run *r, const struct qscore_text *x,
    struct qscore_sums *sums, struct qwen_text *t);

/*
 * Add a line with the sums of a file to t; as JSON without the closing brace.
 */
void qscore_line(const struct qscore_run *r, const char *name,
    const struct qscore_sums *s, struct qwen_text *t);

/* --------------------------------------------------- a base to compare with */

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
