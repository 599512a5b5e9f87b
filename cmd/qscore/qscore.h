/* SPDX-License-Identifier: ISC */
/*
 * qscore.h - texts whose tokens are scored: windows over what is longer than the
 * context, and results.
 */
#ifndef QSCORE_H
#define QSCORE_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "tool/tool.h"
#include "text/request/request.h"
#include "base.h"

/* A text, and what came of it. */
struct qscore_text {
	struct qscore_text	*next;
	struct qscore_run	*run;
	uint64_t		 line;	/* of a request */
	const char		*name;	/* of a file; NULL: a request */
	struct qwen_score_request q;
	double			*logprob;	/* of from .. n - 1 */
	uint32_t		*rank;
	struct qwen_sample_top	*top;	/* n_top of each */
	size_t			 at;	/* where the next window scores */
	size_t			 left;	/* windows that have not ended */
	size_t			 bytes;	/* of memory, about */
};

/* Sums over the tokens that were scored. */
struct qscore_sums {
	size_t	 n_tokens;	/* with those that were not */
	size_t	 n;
	double	 logprob, square;	/* of each, and of its square */
	size_t	 greedy;	/* that greedy choosing takes */
	uint64_t bytes;		/* of their text */
};

/* Where texts come from. */
struct qscore_source {
	/* The next one: 1, or 0 at the end; *x is NULL if it is none. */
	int	(*next)(void *arg, struct qscore_text **x);
	/* One could be had without waiting. */
	int	(*waiting)(void *arg);
	void	*arg;
};

struct qscore_run {
	/* set by the caller */
	struct qscore_source	 source;
	struct tool_work	 work;
	struct qwen_scoring	 how;
	size_t			 context, stride;
	int			 each;	/* a line, or an object, a token */
	size_t			 n_top;	/* and so many of the best with it */
	int			 json;	/* for files; requests are always */
	int			 table;	/* with a line above the first */
	struct cli_output	*out;
	/* our own */
	struct qscore_text	*head, *tail;	/* in order */
	size_t			 n, bytes;	/* of these */
	int			 read;	/* the source is at its end */
	uint64_t		 n_done, n_scored;
	struct qscore_sums	 total;
};

/* Tokens begin .. end - 1 of a text, of which those from first on are scored. */
struct qscore_window {
	size_t	 begin, first, end;
};

/*
 * The next one of a text, where x->at is below its end: each token is scored
 * once, with at least context - stride tokens before it, or all.
 */
void qscore_next_window(const struct qscore_run *r, struct qscore_text *x,
    struct qscore_window *w);

/* The bytes that a token stands for; until the next call. */
struct qwen_str qscore_spell(const struct qscore_run *r, int32_t id);

/* All texts of the source, to the end. Dies. */
void qscore_all(struct qscore_run *r);

/* Write a text, and make it empty. */
void qscore_write(const struct qscore_run *r, struct qwen_text *t);

/* The result of one as text or JSON; added to sums. */
void qscore_result(const struct qscore_run *r, const struct qscore_text *x,
    struct qscore_sums *sums, struct qwen_text *t);

/* A line about sums of a file, called name; as JSON, still to be closed. */
void qscore_line(const struct qscore_run *r, const char *name,
    const struct qscore_sums *s, struct qwen_text *t);

#endif
