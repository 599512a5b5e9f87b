/* SPDX-License-Identifier: ISC */
/*
 * score.h - texts whose tokens are scored, for qscore: what is in a line of
 * requests, windows over what is longer than the context, results.
 */
#ifndef CLI_SCORE_H
#define CLI_SCORE_H

#include "cli/batch.h"

struct cli_score;

/* A text, and what came of it. */
struct cli_scored {
	struct cli_scored	*next;
	struct cli_score	*run;
	uint64_t		 line;	/* of a request */
	const char		*name;	/* of a file; NULL: a request */
	char			*id;	/* JSON, or NULL */
	int32_t			*tokens;
	size_t			 n;
	size_t			 from;	/* the first that is scored */
	size_t			 front;	/* tokens put in front, 0 or 1 */
	double			*logprob;	/* of from .. n - 1 */
	uint32_t		*rank;
	struct qwen_sample_top	*top;	/* n_top of each */
	size_t			 at;	/* where the next window scores */
	size_t			 left;	/* windows that have not ended */
	size_t			 bytes;	/* of memory, about */
	struct qwen_err		 err;	/* code 0: none */
	const char		*code;	/* of the error, a word */
};

/* Sums over the tokens that were scored. */
struct cli_score_sums {
	size_t	 n_tokens;	/* with those that were not */
	size_t	 n;
	double	 logprob, square;	/* of each, and of its square */
	size_t	 greedy;	/* that greedy choosing takes */
	uint64_t bytes;		/* of their text */
};

/* Where texts come from. */
struct cli_score_source {
	/* The next one: 1, or 0 at the end; *q is NULL if it is none. */
	int	(*next)(void *arg, struct cli_scored **q);
	/* One could be had without waiting. */
	int	(*waiting)(void *arg);
	void	*arg;
};

struct cli_score {
	/* set by the caller */
	struct cli_score_source	 source;
	struct qwen_work	*work;
	const struct qwen_tok	*tok;
	struct qwen_tok_decoder	*spell;	/* bytes of single tokens */
	size_t			 n_vocab;
	size_t			 context, stride;
	unsigned		 encode;	/* QWEN_TOK_SPECIAL or 0 */
	int32_t			 first;	/* what texts begin with, -1: none */
	int			 bos;	/* put it in front of all texts */
	int			 each;	/* a line, or an object, a token */
	size_t			 n_top;	/* and so many of the best with it */
	int			 json;	/* for files; requests are always */
	size_t			 n_ahead;
	struct cli_results	 out;
	/* our own */
	struct cli_scored	*head, *tail;	/* in order */
	size_t			 n, bytes;	/* of these */
	int			 read;	/* the source is at its end */
	uint64_t		 n_done, n_scored, n_failed, failed_line;
	char			 failed[240];	/* why the first one did */
	struct cli_score_sums	 total;
};

/* A line of requests; whatever is wrong with it is its own error. Dies. */
struct cli_scored *cli_scored_parse(const struct cli_score *r,
    const struct cli_line *line, uint64_t number);
struct cli_scored *cli_scored_new(void);
/* The text's error, the first one it has; -1, for the caller to return. */
int cli_scored_fail(struct cli_scored *q, const char *code, const char *fmt,
    ...) __attribute__((format(printf, 3, 4)));
void cli_scored_free(struct cli_scored *q);

/*
 * The tokens of a text as it is scored from its first token on, or the second
 * if nothing is in front; they become q's.
 */
void cli_scored_text(const struct cli_score *r, struct cli_scored *q,
    int32_t *tokens, size_t n);

/* All texts of the source, to the end. Dies. */
void cli_score_run(struct cli_score *r);

/* The result of one as text or JSON; added to sums. */
void cli_score_result(const struct cli_score *r, const struct cli_scored *q,
    struct cli_score_sums *sums, struct cli_text *t);

/* A line about sums of a file, called name; as JSON, still to be closed. */
void cli_score_line(const struct cli_score *r, const char *name,
    const struct cli_score_sums *s, struct cli_text *t);

#endif
