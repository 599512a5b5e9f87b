/* SPDX-License-Identifier: ISC */
/*
 * qwen/draft.h - guesses at what follows, so that one pass over the weights can
 * bring several tokens.
 *
 * Guesses decide speed alone: tokens, logits and states are the same bits with
 * them and without.  See struct qwen_eval in qwen/session.h.
 */
#ifndef QWEN_QWEN_DRAFT_H
#define QWEN_QWEN_DRAFT_H

#include "qwen/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where guesses come from. */
enum qwen_draft_mode {
	QWEN_DRAFT_NONE,
	QWEN_DRAFT_LOOKUP,	/* what followed when the last tokens were there
				   before, in the text or a given one */
	QWEN_DRAFT_MTP,		/* the model's block for several tokens */
	QWEN_DRAFT_AUTO,	/* from both of these, or none, as it pays */
};

struct qwen_draft_opts {
	enum qwen_draft_mode mode;
	/*
	 * So many guesses in each pass, at most QWEN_GUESS_MAX; 0: as many as
	 * pay, by the time that passes take on this machine.
	 */
	size_t		 n;
	const int32_t	*text;		/* to look up as well; copied */
	size_t		 n_text;
};

/* What the guessing for all timelines of a model has in common. */
struct qwen_drafts;

/*
 * The model must outlive it.  QWEN_EUNSUP for QWEN_DRAFT_MTP where the model has
 * no such block.
 */
int qwen_drafts_new_sized(size_t size, struct qwen_drafts **out,
    struct qwen_model *m, const struct qwen_draft_opts *o,
    struct qwen_err *err);
#define qwen_drafts_new(...) \
	qwen_drafts_new_sized(sizeof(struct qwen_draft_opts), __VA_ARGS__)
void qwen_drafts_free(struct qwen_drafts *d);

struct qwen_draft_stats {
	uint64_t	 n_passes;	/* that brought a token, or several */
	/* guesses, and those that were right, by where they came from */
	uint64_t	 mtp, mtp_right;
	uint64_t	 looked_up, looked_up_right;
};

/* All so far; each pass brings one token, and each right guess one more. */
void qwen_drafts_stats(const struct qwen_drafts *d,
    struct qwen_draft_stats *out);

/* What guesses for one timeline; free it before what it has in common. */
struct qwen_drafter;

int qwen_drafter_new(struct qwen_drafter **out, struct qwen_drafts *d,
    struct qwen_err *err);
void qwen_drafter_free(struct qwen_drafter *d);

/*
 * qwen_session_eval of one token, which was chosen: without a pass where it was
 * guessed, else in one with guesses of what comes next, at most room.  The
 * session is this drafter's timeline, which it knows again also where that was
 * cut or went on by other means.
 */
int qwen_drafter_eval(struct qwen_drafter *d, struct qwen_session *s,
    int32_t id, size_t room, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
