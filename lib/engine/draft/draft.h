/* SPDX-License-Identifier: ISC */
/*
 * draft.h - drafts for one timeline, and what all timelines share.  The public
 * interface is qwen/draft.h; other folders use the first part of this header
 * for passes of many timelines.
 *
 * Every draft is recorded as a prediction and compared with the tokens that
 * follow.  So the acceptance rate is known also for drafts that no pass
 * verified; lookups cost almost nothing.
 */
#ifndef QWEN_DRAFT_DRAFT_H
#define QWEN_DRAFT_DRAFT_H

#include "qwen/draft.h"
#include "engine/draft/cost.h"
#include "engine/draft/lookup.h"
#include "engine/draft/odds.h"

/* The pass that drafts are made for. */
struct qwen_draft_pass {
	size_t	 max_drafts;
	size_t	 rows;		/* rows without drafts */
	double	 tokens;	/* expected tokens without drafts */
};

/*
 * Proposes drafts for the next pass of the session: *n of them in *guess, valid
 * until the next call.  If nothing was read since, returns the same drafts
 * again, at most max_drafts.
 */
int qwen_drafter_propose(struct qwen_drafter *d, struct qwen_session *s,
    int32_t next, const struct qwen_draft_pass *pass, const int32_t **guess,
    size_t *n, struct qwen_err *err);

/* Records the time of a pass with `rows' rows. */
void qwen_drafts_passed(struct qwen_drafts *d, size_t rows, double seconds);

/* ---- internal to this folder */

enum { QWEN_DRAFT_MAX = QWEN_GUESS_MAX };

struct qwen_drafts {
	struct qwen_draft_opts	 o;
	struct qwen_lookup	 text;
	struct qwen_odds	 odds;
	struct qwen_cost	 cost;
	struct qwen_draft_stats	 stats;
	/*
	 * Makes drafts with the MTP block of the tokens after next, which the
	 * session has not read; NULL: no block. now returns the time in
	 * seconds.
	 */
	int	(*chain)(struct qwen_session *s, int32_t next, size_t n,
		    int32_t *id, float *probability, size_t *n_out,
		    struct qwen_err *err);
	double	(*now)(void);
};

/* Drafts to be compared with the tokens that follow. */
struct qwen_prediction {
	size_t	 at;			/* position of the first draft */
	size_t	 n, right;		/* right: accepted so far; n == right:
					   nothing left to compare */
	int32_t	 id[QWEN_DRAFT_MAX];
	size_t	 which[QWEN_DRAFT_MAX];	/* odds by depth or length, */
	size_t	 sure[QWEN_DRAFT_MAX];	/* and by the block's probability;
					   QWEN_ODDS_N: none */
};

struct qwen_drafter {
	struct qwen_drafts	*all;
	struct qwen_lookup	 seen;	/* the timeline and the next token */
	struct qwen_odds	 odds;
	/*
	 * Earlier occurrence of the end of the text: in source, followed by the
	 * token at `from'; `length' tokens match, 0: none.
	 */
	const struct qwen_lookup *source;
	size_t			 from, length;
	struct qwen_prediction	 looked_up, chain;
	size_t			 probed;	/* position of the last drafts
						   by the MTP block */
	/* the last pass */
	size_t			 at;		/* position of its first
						   draft */
	size_t			 n, right;
	int32_t			 id[QWEN_DRAFT_MAX];
	int			 mtp;
	struct qwen_draft_pass	 pass;		/* rows 0: no pass yet */
	double			 drafting_time;	/* relative time that making
						   drafts took */
	/*
	 * Time that may be lost, in tokens: a little at first; it grows with
	 * each token read and with time gained.
	 */
	double			 credit;
};

/* Brings the timeline up to these tokens and next, comparing predictions. */
int qwen_drafter_follow(struct qwen_drafter *d, const int32_t *tokens,
    size_t n, int32_t next, struct qwen_err *err);

/* Makes drafts: d->id and d->n. */
int qwen_drafter_guess(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, struct qwen_err *err);

#endif
