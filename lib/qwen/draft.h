/* SPDX-License-Identifier: ISC */
/*
 * qwen/draft.h - speculative decoding: drafts let one pass over the weights
 * produce several tokens.
 *
 * Drafts change only the speed: tokens, logits and states are the same bits
 * with and without them.  See struct qwen_eval in qwen/session.h.
 */
#ifndef QWEN_QWEN_DRAFT_H
#define QWEN_QWEN_DRAFT_H

#include "qwen/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where drafts come from. */
enum qwen_tmpfile_mode {
	QWEN_DRAFT_NONE,
	QWEN_DRAFT_LOOKUP,	/* text that followed an earlier occurrence of
				   the last tokens, in this or a given text */
	QWEN_DRAFT_MTP,		/* the model's MTP block */
	QWEN_DRAFT_AUTO,	/* both or none, whichever is fastest */
};

struct qwen_draft_opts {
	enum qwen_tmpfile_mode mode;
	/*
	 * Drafts per pass, at most QWEN_GUESS_MAX; 0: as many as are worth it,
	 * by the times of passes measured on this machine.
	 */
	size_t		 n;
	const int32_t	*text;		/* also searched by LOOKUP; copied */
	size_t		 n_text;
};

/* Drafting state that all sessions of a model share. */
struct qwen_drafts;

/*
 * The model must outlive it.  QWEN_EUNSUP for QWEN_DRAFT_MTP if the model has
 * no MTP block.
 */
int qwen_drafts_new_sized(size_t size, struct qwen_drafts **out,
    struct qwen_model *m, const struct qwen_draft_opts *o,
    struct qwen_err *err);
#define qwen_drafts_new(...) \
	qwen_drafts_new_sized(sizeof(struct qwen_draft_opts), __VA_ARGS__)
void qwen_drafts_free(struct qwen_drafts *d);

struct qwen_draft_stats {
	uint64_t	 n_passes;	/* passes that produced tokens */
	/* drafts, and accepted drafts, by their source */
	uint64_t	 mtp, mtp_right;
	uint64_t	 looked_up, looked_up_right;
};

/*
 * The totals so far.  Each pass produces one token, plus one per accepted
 * draft.
 */
void qwen_drafts_stats(const struct qwen_drafts *d,
    struct qwen_draft_stats *out);

/* Drafts for one session; free it before the struct qwen_drafts. */
struct qwen_drafter;

int qwen_drafter_new(struct qwen_drafter **out, struct qwen_drafts *d,
    struct qwen_err *err);
void qwen_drafter_free(struct qwen_drafter *d);

/*
 * qwen_session_eval of one chosen token: without a pass if the token was
 * drafted, else with up to room drafts of the tokens after it.  Use a drafter
 * with one session; it notices if the session was cut or continued by other
 * calls.
 */
int qwen_drafter_eval(struct qwen_drafter *d, struct qwen_session *s,
    int32_t id, size_t room, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
