/* SPDX-License-Identifier: ISC */
/*
 * odds.h - how often guesses were right, if those before them were: by their
 * depth, by how sure the block was that made them, or by how many tokens were
 * alike where they were looked up.
 */
#ifndef QWEN_DRAFT_ODDS_H
#define QWEN_DRAFT_ODDS_H

#include <stddef.h>

enum {
	QWEN_ODDS_DEPTHS = 16,
	QWEN_ODDS_SURES = 8,
	QWEN_ODDS_LENGTHS = 6,
	QWEN_ODDS_STEPS = 5,		/* of depth, of what was looked up */
	QWEN_ODDS_N = QWEN_ODDS_DEPTHS + QWEN_ODDS_SURES +
	    QWEN_ODDS_LENGTHS * QWEN_ODDS_STEPS,
};

/* Zero at first. */
struct qwen_odds {
	float	 right[QWEN_ODDS_N], tried[QWEN_ODDS_N];
};

/* Which of the numbers it is; depth is from 0 on. */
size_t qwen_odds_depth(size_t depth);
size_t qwen_odds_sure(double probability);
size_t qwen_odds_looked_up(size_t length, size_t depth);

/* One was right, or not: old ones count less and less, the less keep is. */
void qwen_odds_note(struct qwen_odds *o, size_t which, int right, double keep);

/*
 * Returns the share of accepted drafts: that of one text; if it has few trials,
 * that of all texts; if those are few, the prior.
 */
double qwen_odds_of(const struct qwen_odds *one, const struct qwen_odds *all,
    size_t which);

#endif
