/* SPDX-License-Identifier: ISC */
/*
 * cost.h - what a pass costs on this machine, by the number of its rows, as it
 * was measured: in passes of one row.
 */
#ifndef QWEN_DRAFT_COST_H
#define QWEN_DRAFT_COST_H

#include <stddef.h>
#include <stdint.h>

enum { QWEN_COST_ROWS = 40 };	/* more than these are no matter of guesses */

/* What something costs, from n times that it was measured. */
struct qwen_cost_mean {
	double	 v;
	double	 n;
};

/* Zero at first. */
struct qwen_cost {
	double		 scale;		/* seconds of a pass of one row */
	struct qwen_cost_mean rows[QWEN_COST_ROWS + 1];	/* of one row: 1 */
	struct qwen_cost_mean draft;	/* making one guess */
	double		 fit[QWEN_COST_ROWS + 1];
	double		 last;		/* the last one, in what it should
					   have been; from 0.5 to 1.5, or
					   to 4 at first */
	size_t		 known;		/* the most rows that were measured */
	uint64_t	 n_passes, plain;	/* the last one of one row */
};

/* Record the time of a pass with `rows' rows, or of making n drafts. */
void qwen_cost_pass(struct qwen_cost *c, size_t rows, double seconds);
void qwen_cost_draft(struct qwen_cost *c, size_t n, double seconds);

/* A pass of one row is to be measured, for all others are multiples of it. */
int qwen_cost_is_due(const struct qwen_cost *c);

/* What such a pass costs; rows are at least 1.  What making a guess costs. */
double qwen_cost_of(const struct qwen_cost *c, size_t rows);
double qwen_cost_of_draft(const struct qwen_cost *c);

/* A choice of how many guesses go into a pass. */
struct qwen_cost_choice {
	size_t	 rows;		/* of the pass without them, at least 1 */
	double	 tokens;	/* that it is expected to bring then */
	const double *p;	/* p[i]: i + 1 guesses are all right */
	size_t	 n;		/* at most */
	double	 draft;		/* what each one costs before the pass */
	double	 risk;		/* the most to be lost if all are wrong */
};

/*
 * So many guesses, that most tokens come in a time; and tokens by time then.
 */
size_t qwen_cost_best(const struct qwen_cost *c,
    const struct qwen_cost_choice *o, double *rate);

#endif
