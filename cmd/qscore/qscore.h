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
#include "base.h"

/* A text and its results. */
struct qscore_text {
	struct tool_input	 item;
	const char		*name;	/* name of a file; NULL for a request */
	struct qwen_score_request q;
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
	struct tool_queue	 queue;		/* n_tokens: scored */
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

#endif
