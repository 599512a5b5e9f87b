/* SPDX-License-Identifier: ISC */
/*
 * qwen/work.h - many texts at the same time.
 *
 * new; add jobs, also later; step until it returns 0.  Tokens come by callbacks.
 */
#ifndef QWEN_QWEN_WORK_H
#define QWEN_QWEN_WORK_H

#include "qwen/draft.h"
#include "qwen/sample.h"
#include "qwen/session.h"
#include "qwen/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Many texts to be gone on with, on one model.  As many of them as there is
 * room for are under way at the same time, in common passes over the weights:
 * one that is finished leaves, and the next one enters at once; parts of new
 * prompts go along with the tokens that the others generate.  What several
 * prompts begin with is read once.  The tokens of a job are those it gets
 * alone, whatever else there is, and however little memory.
 */
struct qwen_work;

struct qwen_work_opts {
	struct qwen_model *model;
	struct qwen_cache *cache;	/* of this model */
	size_t		 n_sequences;	/* at the same time; 0: a default */
	size_t		 n_pass;	/* tokens in a pass, about; 0: likewise.
					   Never changes a result */
	/*
	 * For guesses at what comes, where there are so few sequences that they
	 * pay; or NULL.  Changes no result.
	 */
	struct qwen_drafts *drafts;
	struct qwen_store *store;	/* where beginnings may be, and go; or
					   NULL */
	/*
	 * For who goes on with what was read before, as conversations do: what
	 * a job has read, its answer too, stays after its end as a beginning
	 * for jobs to come: so many of them (n_sequences at least) while the
	 * cache has room, then the one not used for the longest time goes.
	 * 0: a beginning is kept where jobs that wait share it, and no other.
	 */
	size_t		 n_keep;
	/*
	 * No pass while others generate is to take much longer than that, in
	 * seconds: prompts are read in parts that are small enough.  Where
	 * nobody generates, four times as long.  Half of such a part is for
	 * the prompt of which the least is left, so that it need not wait for
	 * long ones.  0: n_pass alone counts, and the oldest goes first.
	 */
	double		 pause_s;
};

/* A token that was chosen. */
struct qwen_choice {
	int32_t		 id;
	size_t		 n;		/* how many there are now */
	/* if asked for, of the row before penalties and temperature: */
	double		 logprob;	/* natural logarithm */
	const struct qwen_sample_top *top;
	size_t		 n_top;
};

enum qwen_job_end {
	QWEN_JOB_ENDING,	/* the last token is one that ends texts */
	QWEN_JOB_REPEATS,	/* the tokens are an endless loop */
	QWEN_JOB_ENOUGH,	/* the callback said so */
	QWEN_JOB_LENGTH,	/* there are max, or the context is full; or all
				   scores or hidden states were told */
	QWEN_JOB_FAILED,
	QWEN_JOB_CANCELLED,	/* by qwen_work_cancel */
};

enum { QWEN_JOB_TOP_MAX = 64, QWEN_JOB_KEEP_MAX = 64 };

/* How likely a given token was after those before it. */
struct qwen_score {
	size_t		 at;		/* its place in the job's tokens */
	double		 logprob;	/* as of qwen_logprob */
	size_t		 rank;		/* likewise */
	/* until the callback returns: */
	const float	*logits;	/* the row */
	const struct qwen_sample_top *top;	/* the best of it, if asked for */
	size_t		 n_top;
};

struct qwen_job {
	const int32_t	*tokens;	/* the prompt, at least one; copied */
	size_t		 n;
	size_t		 max;		/* tokens to generate, at least 1 */
	/*
	 * How they are chosen: not begun yet; the job's from now on, if it is
	 * accepted.  NULL: always the best one.
	 */
	struct qwen_sampler *sampler;
	const int32_t	*ending;	/* tokens that end the text; borrowed */
	size_t		 n_ending;
	int		 logprobs;	/* wanted, and so many of the best */
	size_t		 n_top;		/* too */
	/*
	 * Called for each token, in order; 1: no more of them.  c lives
	 * until it returns.
	 */
	int	(*token)(void *arg, const struct qwen_choice *c);
	/*
	 * If not NULL nothing is generated: it is called for each of the tokens
	 * from .. n - 1, in order, from being at least 1 and below n, with
	 * n_top of the best; of max, sampler, ending, logprobs and token no use
	 * is made.
	 */
	void	(*score)(void *arg, const struct qwen_score *s);
	size_t		 from;
	/*
	 * Likewise, with the hidden state after the output norm at each of the
	 * tokens from .. n - 1 (qwen_model_n_embd numbers, until it returns).
	 * No logits are computed.  What comes before from may be shared with
	 * others or be in the store, so do not ask for more than is needed.
	 */
	void	(*hidden)(void *arg, size_t at, const float *x);
	/*
	 * Of those that wait the highest go first, then the oldest; of those
	 * under way, these make room last.
	 */
	int		 priority;
	/*
	 * Places in the prompt (numbers of tokens, ascending, of at most
	 * QWEN_JOB_KEEP_MAX) after which other texts may go on differently, as
	 * the end of a turn: a beginning is kept there when it is read, if it
	 * goes on for 16 tokens from the one before.
	 */
	const size_t	*keep;		/* copied; or NULL */
	size_t		 n_keep;
	/*
	 * Called once, before anything else, when the job is under way: so many
	 * tokens of it need not be read.  May be NULL.
	 */
	void	(*begun)(void *arg, size_t n_cached);
	/*
	 * Called after each pass that read some of the tokens: so many of them
	 * are read by now, those included that need not be.  May be NULL.
	 */
	void	(*read)(void *arg, size_t n_read);
	/* Called once; err (else NULL) tells why it failed. */
	void	(*end)(void *arg, enum qwen_job_end why,
		    const struct qwen_err *err);
	void	*arg;
};

int qwen_work_new_sized(size_t size, struct qwen_work **out,
    const struct qwen_work_opts *o, struct qwen_err *err);
#define qwen_work_new(...) \
	qwen_work_new_sized(sizeof(struct qwen_work_opts), __VA_ARGS__)
void qwen_work_free(struct qwen_work *w);

/*
 * Add a job to the queue.  -1 if it cannot be done: QWEN_ERANGE for a token
 * outside the vocabulary or a prompt that fills the context, QWEN_EFULL for
 * one that the cache has not room for even alone.
 */
int qwen_work_add_sized(size_t size, struct qwen_work *w,
    const struct qwen_job *job, struct qwen_err *err);
#define qwen_work_add(...) \
	qwen_work_add_sized(sizeof(struct qwen_job), __VA_ARGS__)

/*
 * End the job of this arg (all, if several have the same), whether it waits or
 * is under way; what it has read may stay as a beginning.  How many there were.
 * From a callback, it ends with the step.
 */
size_t qwen_work_cancel(struct qwen_work *w, const void *arg);

/*
 * How many of these tokens a job would find read: *kept in memory, *stored in
 * the store.  Ids may be any.
 */
int qwen_work_cached(const struct qwen_work *w, const int32_t *tokens, size_t n,
    size_t *kept, size_t *stored, struct qwen_err *err);

/*
 * With n_keep, beginnings go to the store when they have to leave memory.  Put
 * one there that is not yet, for when there is nothing else to do, and before
 * the end: 1, or 0 if there is none.
 */
int qwen_work_store(struct qwen_work *w, struct qwen_err *err);

/* Jobs that have not ended; of these, those not under way. */
size_t qwen_work_n_jobs(const struct qwen_work *w);
size_t qwen_work_n_waiting(const struct qwen_work *w);

/*
 * Go on by one pass.  1, or 0 if there is nothing to do.  What goes wrong with
 * a job ends that job; -1 is for what ends the work.
 */
int qwen_work_step(struct qwen_work *w, struct qwen_err *err);

struct qwen_work_stats {
	uint64_t	 n_passes;
	uint64_t	 read;		/* tokens of prompts that were read */
	uint64_t	 shared;	/* that others had read */
	uint64_t	 stored;	/* that were in the store */
	uint64_t	 chosen;	/* tokens generated */
	uint64_t	 scored;	/* tokens of which scores were told */
	uint64_t	 cancelled;	/* jobs */
	uint64_t	 n_kept;	/* beginnings in memory */
	uint64_t	 preempted;	/* jobs that had to make room, */
	uint64_t	 again;		/* and tokens read again for them */
	uint64_t	 max_sequences;	/* under way at the same time */
	uint64_t	 max_bytes;	/* of the cache in use */
	double		 wasted;	/* share of the KV blocks' positions
					   that hold nothing, mean of passes */
	double		 pass_s;	/* seconds in passes alone */
};

void qwen_work_stats(const struct qwen_work *w, struct qwen_work_stats *out);

#ifdef __cplusplus
}
#endif

#endif
