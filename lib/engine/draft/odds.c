/* SPDX-License-Identifier: ISC */
/* odds.c - acceptance rates of drafts. */
#include "engine/draft/odds.h"

/* Number of trials that the prior counts for. */
#define WEIGHT 3.0

enum { FIRST_SURE = QWEN_ODDS_DEPTHS, FIRST_LOOKED_UP = FIRST_SURE +
    QWEN_ODDS_SURES };

/* Upper bounds of the groups; the last group has none. */
static const double sure_to[] = { 0.2, 0.4, 0.6, 0.75, 0.85, 0.93, 0.98 };
static const size_t length_to[] = { 3, 5, 8, 16, 32 };
static const size_t step_to[] = { 0, 1, 3, 7 };

/* Priors of the groups. */
static const double sure_at_first[] = { 0.1, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95,
    0.98 };
static const double length_at_first[] = { 0.35, 0.5, 0.65, 0.75, 0.85, 0.9 };

#define N_OF(a) (sizeof (a) / sizeof *(a))

size_t
qwen_odds_depth(size_t depth)
{
	return depth < QWEN_ODDS_DEPTHS ? depth : QWEN_ODDS_DEPTHS - 1;
}

size_t
qwen_odds_sure(double p)
{
	size_t i;

	for (i = 0; i < N_OF(sure_to) && p > sure_to[i]; i++)
		;
	return FIRST_SURE + i;
}

size_t
qwen_odds_looked_up(size_t length, size_t depth)
{
	size_t i, k;

	for (i = 0; i < N_OF(length_to) && length > length_to[i]; i++)
		;
	for (k = 0; k < N_OF(step_to) && depth > step_to[k]; k++)
		;
	return FIRST_LOOKED_UP + i * QWEN_ODDS_STEPS + k;
}

void
qwen_odds_note(struct qwen_odds *o, size_t which, int right, double keep)
{
	o->right[which] = (float)(keep * o->right[which]) + (right ? 1 : 0);
	o->tried[which] = (float)(keep * o->tried[which]) + 1;
}

static double
mean(const struct qwen_odds *o, size_t which, double prior)
{
	return (o->right[which] + WEIGHT * prior) / (o->tried[which] + WEIGHT);
}

double
qwen_odds_of(const struct qwen_odds *one, const struct qwen_odds *all,
    size_t which)
{
	double prior;
	size_t k;

	if (which >= FIRST_LOOKED_UP) {
		k = which - FIRST_LOOKED_UP;
		/* the prior of a depth is the rate of the depth before */
		prior = k % QWEN_ODDS_STEPS > 0 ? qwen_odds_of(one, all,
		    which - 1) : length_at_first[k / QWEN_ODDS_STEPS];
	} else if (which >= FIRST_SURE) {
		prior = sure_at_first[which - FIRST_SURE];
	} else {
		prior = which > 0 ? qwen_odds_of(one, all, which - 1) : 0.75;
	}
	return mean(one, which, mean(all, which, prior));
}
