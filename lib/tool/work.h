/* SPDX-License-Identifier: ISC */
/*
 * work.h - part of tool.h: many texts at a time, results in the order of the
 * input, and statistics of requests.
 */
#ifndef TOOL_WORK_H
#define TOOL_WORK_H

#include "tool/intake.h"
#include "tool/model.h"

/* ----------------------------------------------------- many texts at a time */

/*
 * The scheduler, everything it needs, and a count of the failed requests.  The
 * option rows set the first members.
 */
struct tool_work {
	const char		*path;		/* -m */
	int			 n_threads;
	unsigned		 numerics;	/* 0: the default version */
	uint64_t		 mem;		/* 0: no limit */
	size_t			 n_sequences;	/* the caller sets
						   TOOL_SEQUENCES */
	size_t			 n_pass;
	struct tool_store	 at;
	struct tool_draft	 draft;		/* opened by
						   tool_draft_open() */
	size_t			 n_keep;	/* as in struct
						   qwen_work_opts */
	unsigned		 pause_ms;	/* in ms; pause_s there */
	/* set by tool_work_open_model and tool_work_open: */
	struct qwen_model	*model;
	const struct qwen_gguf	*gguf;		/* of the model */
	struct qwen_tok		*tok;
	struct qwen_tok_decoder	*spell;		/* bytes of single tokens */
	struct qwen_cache	*cache;
	struct qwen_store	*store;
	struct qwen_work	*work;
	size_t			 n_ahead;	/* number of texts to read
						   ahead */
	/* results so far: */
	uint64_t		 n_failed, failed_line;	/* failed_line: of the
							   first failure */
	struct qwen_err		 failed;	/* the first failure */
};

enum { TOOL_SEQUENCES = 32 };

/*
 * tool_work_open_model opens the model and its tokenizer; then tool_work_open opens
 * the rest.  They die.
 */
void tool_work_open_model(struct tool_work *w);
void tool_work_open(struct tool_work *w);
void tool_work_close(struct tool_work *w);

/* qwen_work_step; dies on errors. */
int tool_work_step(struct tool_work *w);

/*
 * Refuses a request with the code and the message of err (qwen_refuse); returns
 * -1.  The code is out_of_memory for QWEN_EFULL and invalid_request for
 * QWEN_ERANGE.
 */
struct qwen_refusal;
int tool_refuse(struct qwen_refusal *refusal, const char *code,
    const struct qwen_err *err);

/* Counts a finished request if it was refused. */
void tool_note_failed(struct tool_work *w, uint64_t line,
    const struct qwen_refusal *refusal);

/*
 * If any of n requests failed, warns and sets exit status 3. `before' failures
 * are added to those counted in w.
 */
void tool_warn_failed(const struct tool_work *w, uint64_t before, uint64_t n);

/* Notes the unknown fields of requests, if any; they may be misspelt. */
struct qwen_unknown;
void tool_report_unknown(const struct qwen_unknown *u);
/* Prints each note of u that was not printed yet. */
void tool_report_notes(struct qwen_unknown *u);

/*
 * Writes the beginning of the result of one request, {"line":3,"id":"a", and
 * returns 1.  For a refused request it writes the complete result and returns
 * 0.
 */
int tool_begin_result(struct qwen_text *t, uint64_t line, const char *id,
    const struct qwen_refusal *refusal);

/* ---------------------------------------------------------- results in order */

/*
 * One input whose result is one unit of output.  Tools put it first in a struct
 * of their own.
 */
struct tool_input {
	struct tool_input	*next;
	size_t			 left;		/* its jobs that have not
						   ended */
	size_t			 bytes;		/* of memory, roughly */
	int			 has_more;	/* more() has jobs to add */
};

struct tool_queue {
	/* set by the caller */
	struct tool_work	*work;		/* opened */
	/*
	 * Reads the next input and adds its jobs.  Returns 1, or 0 at the end
	 * of the input. *x stays NULL if the input gave no item.
	 */
	int	(*next)(void *arg, struct tool_input **x);
	/*
	 * Adds the next job of the last input, if that has more of them than
	 * the scheduler takes at once; may be NULL.
	 */
	void	(*more)(void *arg, struct tool_input *x);
	/* Returns 1 if next() would not wait for input. */
	int	(*waiting)(void *arg);
	/* All jobs of x have ended: write its result, and free x. */
	void	(*put)(void *arg, struct tool_input *x);
	void	*arg;
	int	unordered;	/* put results in any order */
	/* results so far: */
	uint64_t		 n_done;
	/* used by queue.c; bytes: of all items, for tools that change theirs */
	struct tool_input	*head, *tail;
	size_t			 n, bytes;
	int			 read;
};

/* Processes the input to its end.  Dies. */
void tool_queue_run(struct tool_queue *o);

/*
 * -v: prints how many results there are, of n_tokens tokens, and how fast; what
 * names them.
 */
void tool_report_results(const struct tool_work *w, uint64_t n,
    uint64_t n_tokens, const char *what, double start);

/* --------------------------------------------------------- request timing */

/*
 * Returns the seconds until the next request of a Poisson process with `rate'
 * requests per second on average.  *rng advances.
 */
double tool_request_gap(uint64_t *rng, double rate);

/* Times of a request in ms: to the first token, per later token, and total. */
enum { TOOL_TTFT, TOOL_TPOT, TOOL_E2E, TOOL_N_TIMES };

struct tool_times {
	double	ms[TOOL_N_TIMES];	/* of a goal: 0 for none; of a request:
					   tpot below 0 if there is none */
};

/*
 * tool_goals_parse parses "ttft:500,tpot:50,e2e:2000" into a struct tool_times;
 * usage error if invalid. tool_goals_met returns 1 if all times of t are within
 * the goals.
 */
void tool_goals_parse(const struct cli_opt *o, const char *s);
int tool_goals_met(const struct tool_times *goals, const struct tool_times *t);

/* Measured times; all zero at first. */
struct tool_timings {
	double	*v;
	size_t	 n, cap;
};

/* Adds a value unless it is negative. */
void tool_timings_add(struct tool_timings *s, double ms);
void tool_timings_fini(struct tool_timings *s);

/* Compares two doubles, for qsort(3). */
int tool_by_value(const void *a, const void *b);

/*
 * Computes the mean, the percentiles 50, 90, 95 and 99, and the maximum of a
 * sample, and sorts it; all are 0 for an empty sample.
 */
enum { TOOL_N_STATS = 6 };
extern const char *const tool_stat_names[TOOL_N_STATS];
void tool_timings_stats(struct tool_timings *s, double out[TOOL_N_STATS]);

/*
 * Write these statistics: head writes the heading of a table and text one line
 * of it; json writes "name":{"n":9,...}.
 */
void tool_timings_head(struct qwen_text *t);
void tool_timings_text(struct qwen_text *t, const char *name,
    struct tool_timings *s);
void tool_timings_json(struct qwen_text *t, const char *name,
    struct tool_timings *s);

#endif
