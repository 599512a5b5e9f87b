/* SPDX-License-Identifier: ISC */
/*
 * draft.h - guessing for one timeline, and what all have in common.  The face of
 * this folder is qwen/draft.h, and for passes of many timelines the first part
 * of this.
 *
 * A guess is noted as a prediction, and compared with what comes: so it is known
 * how often guesses are right, also of those that no pass was made for, which
 * cost nothing where they were looked up.
 */
#ifndef QWEN_DRAFT_DRAFT_H
#define QWEN_DRAFT_DRAFT_H

#include "qwen/draft.h"
#include "engine/draft/cost.h"
#include "engine/draft/lookup.h"
#include "engine/draft/odds.h"

/* The pass that guesses are for. */
struct qwen_draft_pass {
	size_t	 room;		/* for so many at most */
	size_t	 rows;		/* that it has without them */
	double	 tokens;	/* that these bring, as far as is known */
};

/*
 * Proposes drafts for the next pass of the session: *n of them in *guess, valid
 * until the next call.  Returns the same drafts again, except for room, if
 * nothing was read since.
 */
int qwen_drafter_propose(struct qwen_drafter *d, struct qwen_session *s,
    int32_t next, const struct qwen_draft_pass *pass, const int32_t **guess,
    size_t *n, struct qwen_err *err);

/* Records the time of a pass with `rows' rows. */
void qwen_drafts_passed(struct qwen_drafts *d, size_t rows, double seconds);

/* ---- for this folder alone */

enum { QWEN_DRAFT_MAX = QWEN_GUESS_MAX };

struct qwen_drafts {
	struct qwen_draft_opts	 o;
	struct qwen_lookup	 text;
	struct qwen_odds	 odds;
	struct qwen_cost	 cost;
	struct qwen_draft_stats	 stats;
	/*
	 * Makes the MTP block's drafts of the next tokens, which the session
	 * has not read; NULL: no block.  And a clock, in seconds.
	 */
	int	(*chain)(struct qwen_session *s, int32_t next, size_t n,
		    int32_t *id, float *probability, size_t *n_out,
		    struct qwen_err *err);
	double	(*now)(void);
};

/* Guesses that were made, to be compared with what comes. */
struct qwen_prediction {
	size_t	 at;			/* place of the first one */
	size_t	 n, right;		/* as yet; n == right: no more to see */
	int32_t	 id[QWEN_DRAFT_MAX];
	size_t	 which[QWEN_DRAFT_MAX];	/* of the odds: by depth or length, */
	size_t	 sure[QWEN_DRAFT_MAX];	/* and how sure; QWEN_ODDS_N: not */
};

struct qwen_drafter {
	struct qwen_drafts	*all;
	struct qwen_lookup	 seen;	/* the timeline, and what it reads next */
	struct qwen_odds	 odds;
	/*
	 * Where the end was before: the text, its place after that, and how
	 * many tokens are alike; length 0: nowhere.
	 */
	const struct qwen_lookup *source;
	size_t			 from, length;
	struct qwen_prediction	 looked_up, chain;
	size_t			 probed;	/* place of the last chain that
						   was made to learn */
	/* of the last pass */
	size_t			 at;		/* place of its first guess */
	size_t			 n, right;
	int32_t			 id[QWEN_DRAFT_MAX];
	int			 mtp;
	struct qwen_draft_pass	 pass;		/* rows 0: there was none */
	double			 before;	/* time that guessing took */
	/*
	 * What may be lost, in such tokens: a little at first, and with each
	 * token that is read; and what was gained.
	 */
	double			 credit;
};

/* The timeline has these tokens, and reads next. */
int qwen_drafter_follow(struct qwen_drafter *d, const int32_t *tokens,
    size_t n, int32_t next, struct qwen_err *err);

/* Guesses, in d->id and d->n. */
int qwen_drafter_guess(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, struct qwen_err *err);

#endif
