/* SPDX-License-Identifier: ISC */
/*
 * odds.h - acceptance rates of drafts, given that all drafts before were
 * accepted: by depth, by the MTP block's probability, or by the length of the
 * match where a draft was looked up.
 */
#ifndef QWEN_DRAFT_ODDS_H
#define QWEN_DRAFT_ODDS_H

#include <stddef.h>

enum {
	QWEN_ODDS_DEPTHS = 16,
	QWEN_ODDS_SURES = 8,
	QWEN_ODDS_LENGTHS = 6,
	QWEN_ODDS_STEPS = 5,		/* groups of depth for lookups */
	QWEN_ODDS_N = QWEN_ODDS_DEPTHS + QWEN_ODDS_SURES +
	    QWEN_ODDS_LENGTHS * QWEN_ODDS_STEPS,
};

/* Initially all zero. */
struct qwen_odds {
	float	 right[QWEN_ODDS_N], tried[QWEN_ODDS_N];
};

/* Return the index of a group; depth counts from 0. */
size_t qwen_odds_depth(size_t depth);
size_t qwen_odds_sure(double probability);
size_t qwen_odds_looked_up(size_t length, size_t depth);

/*
 * Records whether a draft was accepted.  Older results are multiplied by keep.
 */
void qwen_odds_note(struct qwen_odds *o, size_t which, int right, double keep);

/*
 * Returns the share of accepted drafts: that of one text; if it has few trials,
 * that of all texts; if those are few, the prior.
 */
double qwen_odds_of(const struct qwen_odds *one, const struct qwen_odds *all,
    size_t which);

#endif
