/* SPDX-License-Identifier: ISC */
/*
 * cost.h - measured time of a pass by its number of rows, relative to a pass of
 * one row.
 */
#ifndef QWEN_DRAFT_COST_H
#define QWEN_DRAFT_COST_H

#include <stddef.h>
#include <stdint.h>

enum { QWEN_COST_ROWS = 40 };	/* more rows are not tracked, since no drafts
				   are added to such passes */

/* A mean and the number of its measurements. */
struct qwen_cost_mean {
	double	 v;
	double	 n;
};

/* Initially all zero. */
struct qwen_cost {
	double		 scale;		/* seconds of a pass of one row */
	struct qwen_cost_mean rows[QWEN_COST_ROWS + 1];	/* by rows: time
							   relative to a pass of
							   one row */
	struct qwen_cost_mean draft;	/* relative time of making one draft */
	double		 fit[QWEN_COST_ROWS + 1];
	double		 last_ratio;	/* last pass: measured by expected time,
					   from 0.5 to 1.5 (to 4 while little is
					   known) */
	size_t		 known;		/* most rows of a measured pass */
	uint64_t	 n_passes;
	uint64_t	 last_plain;	/* number of the last pass of one row */
};

/* Records the time of a pass with `rows' rows, or of making n drafts. */
void qwen_cost_pass(struct qwen_cost *c, size_t rows, double seconds);
void qwen_cost_draft(struct qwen_cost *c, size_t n, double seconds);

/*
 * Returns 1 if a pass of one row should be measured: all other times are
 * relative to it.
 */
int qwen_cost_is_due(const struct qwen_cost *c);

/*
 * Return the relative time of a pass with at least one row, and of making a
 * draft.
 */
double qwen_cost_of(const struct qwen_cost *c, size_t rows);
double qwen_cost_of_draft(const struct qwen_cost *c);

/* The input for choosing the number of drafts of a pass. */
struct qwen_cost_choice {
	size_t	 rows;		/* rows of the pass without drafts, at least
				   1 */
	double	 tokens;	/* expected tokens without drafts */
	const double *p;	/* p[i]: probability that the first i + 1 drafts
				   are all accepted */
	size_t	 n;		/* maximum number of drafts */
	double	 draft;		/* relative time of making one draft */
	double	 risk;		/* most time that may be lost if all drafts are
				   rejected */
};

/*
 * Returns the number of drafts with the most expected tokens per time, which is
 * returned in *rate.
 */
size_t qwen_cost_best(const struct qwen_cost *c,
    const struct qwen_cost_choice *o, double *rate);

#endif
