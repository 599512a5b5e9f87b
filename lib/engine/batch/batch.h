/* SPDX-License-Identifier: ISC */
/*
 * batch.h - waiting jobs, running jobs, and kept prefixes.  Other folders
 * include only qwen/work.h of this folder.
 *
 * A job's text is its prompt and the generated tokens.  A running job has a
 * session that has read a part of the text.  Each pass reads more of the text;
 * at its end the next token is chosen and appended.  A preempted job loses its
 * session and continues later like a new job with a longer prompt.
 */
#ifndef QWEN_BATCH_BATCH_H
#define QWEN_BATCH_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "engine/draft/draft.h"
#include "engine/sample/sample.h"

/*
 * Minimum number of tokens worth sharing: a shared prefix costs a copy of the
 * state.
 */
#define QWEN_SHARE_MIN 16

struct qwen_batch_job {
	struct qwen_job		 job;		/* tokens is NULL: they are in
						   text */
	uint64_t		 seq;		/* age: higher for younger
						   jobs */
	int32_t			*text;
	size_t			 n, cap;
	size_t			 n_prompt;
	size_t			 n_seen;	/* tokens that it had read when
						   it was preempted */
	struct qwen_session	*s;		/* NULL: the job waits */
	size_t			 last_keep;	/* length of the last prefix
						   kept while this job read */
	size_t			 next_keep;	/* length of the next prefix to
						   keep, or 0 */
	struct qwen_drafter	*drafter;	/* created when first needed */
	int			 sampler_begun;	/* the sampler has begun */
	int			 begun_called;	/* job.begun was called */
	int			 cancelled;
	size_t			*keep;		/* copy of job.keep */
	struct qwen_work	*work;
	size_t			 next;		/* index of the next token to
						   score, or whose hidden state
						   is reported (scored text has
						   one token beyond n) */
	/* the token chosen after the last pass */
	struct qwen_choice	 choice;
	struct qwen_sample_top	*top;
	int			 failed;
	struct qwen_err		 err;
};

/* A prefix of several texts that is kept in memory. */
struct qwen_prefix {
	struct qwen_session	*s;
	uint64_t		 used;		/* clock at its last use */
	int			 stored;	/* saved in the store, or not to
						   be saved */
};

struct qwen_work {
	struct qwen_work_opts	 o;
	size_t			 n_vocab, n_ctx;
	struct qwen_cache_usage	 usage;		/* only its constants */
	struct qwen_batch_job	**waiting;	/* in order of priority, then
						   age */
	size_t			 n_waiting, cap_waiting;
	struct qwen_batch_job	**active;	/* in the same order */
	size_t			 n_active;
	struct qwen_prefix	**prefix;
	size_t			 n_prefix, cap_prefix;
	struct qwen_part	*part;		/* parts of the pass, and their
						   jobs */
	struct qwen_batch_job	**owner;
	size_t			 n_part;
	struct qwen_logprob_part *row_part;	/* parts of a row of logits */
	struct qwen_batch_job	**ready;	/* jobs that have read all their
						   text */
	size_t			 n_ready;
	const struct qwen_sift	*sift;
	struct qwen_cands	*list;		/* candidates, one list per
						   thread, allocated when first
						   needed */
	uint64_t		 next_seq, clock;
	int			 preempted;	/* a job was preempted: start
						   none until a job ends */
	int			 in_step;	/* within qwen_work_step */
	double			 pace;		/* tokens per second of
						   passes that read prompts;
						   0: unknown */
	struct qwen_header	 header;	/* for the store */
	struct qwen_work_stats	 stats;
	double			 held, filled;	/* sums over passes: positions
						   in KV blocks, and used
						   positions */
};

/* Returns the number of tokens that the job's session has read. */
static inline size_t
qwen_batch_job_done(const struct qwen_batch_job *t)
{
	return qwen_session_n_tokens(t->s);
}

/* Returns 1 if the job generates tokens, 0 if it scores or embeds its text. */
static inline int
qwen_batch_job_generates(const struct qwen_batch_job *t)
{
	return t->job.score == NULL && t->job.hidden == NULL;
}

/*
 * Returns how many tokens of the text may come from another session.  A job
 * without generated tokens must evaluate the others itself, since a session
 * keeps only the last row of logits: score needs the row before each scored
 * token, hidden the row of each token.
 */
static inline size_t
qwen_batch_job_limit(const struct qwen_batch_job *t)
{
	return qwen_batch_job_generates(t) ? t->n : t->next;
}

/* The functions below are called from qwen_work_step: err is never NULL. */

/* ---- work.c */

/*
 * Removes the job from its list, keeps its prefix if it did not fail, calls its
 * end callback, and frees it.
 */
void qwen_batch_job_end(struct qwen_work *w, struct qwen_batch_job *t,
    enum qwen_job_end why, const struct qwen_err *err);

/* Inserts the job by priority and age into a list with room for it. */
void qwen_batch_job_insert(struct qwen_batch_job **list, size_t *n,
    struct qwen_batch_job *t);

/* ---- prefix.c: kept prefixes */

/*
 * Sets t->next_keep: the next position where a waiting job's text departs from
 * t's, or that t's keep names.
 */
void qwen_batch_job_set_next_keep(struct qwen_work *w,
    struct qwen_batch_job *t);

/*
 * Returns 1 if a running job will keep a longer prefix of t's text than `have'.
 */
int qwen_batch_job_promised(const struct qwen_work *w,
    const struct qwen_batch_job *t, const struct qwen_prefix *have);

/* Returns the longest kept prefix that t can continue from, or NULL. */
struct qwen_prefix *qwen_prefix_find(struct qwen_work *w,
    const struct qwen_batch_job *t);

/*
 * Returns the longest kept prefix of the text. logits: a prefix of all n tokens
 * counts only if it has logits.  NULL if there is none.
 */
struct qwen_prefix *qwen_prefix_longest(const struct qwen_work *w,
    const int32_t *text, size_t n, int logits);

/* Makes the session of a finished job a kept prefix, without a copy. */
void qwen_prefix_keep_session(struct qwen_work *w, struct qwen_batch_job *t);

/* Keeps a copy of what t has read, if there is room. */
int qwen_prefix_keep(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_err *err);

/*
 * The same, but only if a waiting job's text begins with everything that t has
 * read.
 */
int qwen_prefix_keep_shared(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_err *err);

/*
 * Drops the least recently used prefix, except keep, and saves it in the store
 * if that is due.  Returns 0 if there is none.
 */
int qwen_prefix_drop(struct qwen_work *w, const struct qwen_prefix *keep);
void qwen_prefix_free(struct qwen_prefix *prefix);

/* ---- enter.c: starting waiting jobs */
int qwen_work_enter(struct qwen_work *w, struct qwen_err *err);

/* ---- pass.c */

/*
 * Evaluates the next tokens of all jobs in one pass.  Drops kept prefixes and
 * preempts jobs if the cache has no room.
 */
int qwen_work_pass(struct qwen_work *w, struct qwen_err *err);

/* ---- score.c: scores and hidden states of given tokens */

/*
 * Reports the row after the token at pos, or its hidden state: the row function
 * of a part, whose arg is the job.
 */
int qwen_batch_job_row(void *arg, size_t pos, const float *row,
    struct qwen_err *err);

/* Reports the session's last logits if they belong to the next scored token. */
int qwen_batch_job_row_at_end(struct qwen_batch_job *t, struct qwen_err *err);

/* ---- choose.c: choosing the next token of all ready jobs */
int qwen_work_choose(struct qwen_work *w, struct qwen_err *err);

#endif
