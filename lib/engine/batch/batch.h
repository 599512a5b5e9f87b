/* SPDX-License-Identifier: ISC */
/*
 * batch.h - jobs that wait, jobs under way, and beginnings that are kept.  The
 * face of this folder is qwen/work.h: others include nothing else of it.
 *
 * A job's text is its prompt and what was generated.  Under way, it has a
 * session that has read a part of the text; the pass reads more of it, and
 * after its end the next token is chosen and appended.  So a job that had to
 * give its session up goes on like a new one with a longer prompt.
 */
#ifndef QWEN_BATCH_BATCH_H
#define QWEN_BATCH_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "engine/draft/draft.h"
#include "engine/sample/sample.h"

/* Sharing fewer tokens is not worth the copy of a state. */
#define QWEN_SHARE_MIN 16

struct qwen_batch_job {
	struct qwen_job		 job;		/* its tokens are in text */
	uint64_t		 seq;		/* younger ones have higher */
	int32_t			*text;
	size_t			 n, cap;
	size_t			 n_prompt;
	size_t			 n_seen;	/* read when it made room */
	struct qwen_session	*s;		/* NULL: waiting */
	size_t			 from;		/* the last beginning that was
						   kept on its way */
	size_t			 branch;	/* where the next one is to
						   be; or 0 */
	struct qwen_drafter	*drafter;	/* or NULL */
	int			 begun;		/* the sampler is */
	int			 told;		/* that it is under way */
	int			 cancelled;
	size_t			*keep;		/* job.keep, its own */
	struct qwen_work	*work;
	size_t			 next;		/* place of the next token that
						   is scored (text goes on to
						   the last one, n not), or
						   whose hidden state is told */
	/* what was chosen after the last pass */
	struct qwen_choice	 choice;
	struct qwen_sample_top	*top;
	int			 failed;
	struct qwen_err		 err;
};

/* A beginning of several texts. */
struct qwen_node {
	struct qwen_session	*s;
	uint64_t		 used;		/* when last */
	int			 stored;	/* or is not to be */
};

struct qwen_work {
	struct qwen_work_opts	 o;
	size_t			 n_vocab, n_ctx;
	struct qwen_cache_usage	 usage;		/* for its constants */
	struct qwen_batch_job	**waiting;	/* oldest first */
	size_t			 n_waiting, cap_waiting;
	struct qwen_batch_job	**active;	/* oldest first */
	size_t			 n_active;
	struct qwen_node	**node;
	size_t			 n_node, cap_node;
	struct qwen_part	*part;		/* of the pass, and whose */
	struct qwen_batch_job	**owner;
	size_t			 n_part;
	struct qwen_logprob_part *row_part;	/* of a row of logits */
	struct qwen_batch_job	**ready;	/* after whose text is to be
						   chosen */
	size_t			 n_ready;
	const struct qwen_sift	*sift;
	struct qwen_cands	*list;		/* to choose from, one a
						   thread, once needed */
	uint64_t		 next_seq, clock;
	int			 tight;		/* somebody made room: nobody
						   enters before one leaves */
	int			 inside;	/* a step is being made */
	double			 pace;		/* tokens a second of passes
						   that read; 0: not known */
	struct qwen_header	 header;	/* for the store */
	struct qwen_work_stats	 stats;
	double			 held, filled;	/* positions; in use */
};

/* How many tokens two texts begin with alike. */
size_t qwen_batch_job_common(const int32_t *a, size_t n_a, const int32_t *b,
    size_t n_b);

/* Tokens of its text that the job's session has read. */
static inline size_t
qwen_batch_job_done(const struct qwen_batch_job *t)
{
	return qwen_session_n_tokens(t->s);
}

/* Tokens are chosen after its text, which otherwise is all there is. */
static inline int
qwen_batch_job_generates(const struct qwen_batch_job *t)
{
	return t->job.score == NULL && t->job.hidden == NULL;
}

/*
 * The most that others can have read for it: the row after (of hidden states,
 * at) each of the tokens from there on is looked at, and a session keeps the
 * last one's logits alone.
 */
static inline size_t
qwen_batch_job_limit(const struct qwen_batch_job *t)
{
	return qwen_batch_job_generates(t) ? t->n : t->next;
}

/* What follows is called from qwen_work_step: err is never NULL. */

/* ---- work.c */

/* The job under way, or waiting at no place, is over; tell, and free it. */
void qwen_batch_job_end(struct qwen_work *w, struct qwen_batch_job *t,
    enum qwen_job_end why, const struct qwen_err *err);

/* Put it where it belongs by its age, in a list with room. */
void qwen_batch_job_insert(struct qwen_batch_job **list, size_t *n,
    struct qwen_batch_job *t);

/* ---- prefix.c: beginnings that are kept */

/* Where to keep beginnings while t reads: those it shares with who waits. */
void qwen_batch_job_branch(struct qwen_work *w, struct qwen_batch_job *t);

/* A job under way is about to have read more of this text than any node. */
int qwen_batch_job_promised(const struct qwen_work *w,
    const struct qwen_batch_job *t,
    const struct qwen_node *have);

/* Returns the longest node that t can continue from, or NULL. */
struct qwen_node *qwen_node_find(struct qwen_work *w,
    const struct qwen_batch_job *t);

/* The longest beginning of a text; logits: those after its n tokens, if all. */
struct qwen_node *qwen_node_longest(const struct qwen_work *w,
    const int32_t *text, size_t n, int logits);

/* The job is over: what it has read stays, in place of a copy. */
void qwen_node_inherit(struct qwen_work *w, struct qwen_batch_job *t);

/* Keep what t has read, if there is room for it. */
int qwen_node_leave(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_err *err);

/* The same if others that wait begin with all that t has read. */
int qwen_node_share(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_err *err);

/* Give up the one not used for the longest time, but not keep: 0 if none. */
int qwen_node_drop(struct qwen_work *w, const struct qwen_node *keep);
void qwen_node_free(struct qwen_node *node);

/* ---- enter.c: from waiting to under way */
int qwen_work_enter(struct qwen_work *w, struct qwen_err *err);

/* ---- pass.c */

/*
 * Reads the next tokens of all jobs in one pass; frees memory if there is no
 * room.
 */
int qwen_work_pass(struct qwen_work *w, struct qwen_err *err);

/* ---- score.c: the tokens that are given */

/*
 * The row after the token at pos, or its hidden state; a part's row function, arg
 * is the job.
 */
int qwen_batch_job_row(void *arg, size_t pos, const float *row,
    struct qwen_err *err);

/* Tell of the row after what the session has read, if that is the next. */
int qwen_batch_job_row_at_end(struct qwen_batch_job *t, struct qwen_err *err);

/* ---- choose.c: the next token of all that are ready */
int qwen_work_choose(struct qwen_work *w, struct qwen_err *err);

#endif
