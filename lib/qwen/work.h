/* SPDX-License-Identifier: ISC */
/*
 * qwen/work.h - continuous batching: many texts at the same time.
 *
 * Order of calls: new; add jobs, at any time; step until it returns 0.  Tokens
 * arrive through callbacks.
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
 * Generates many texts with one model.  As many jobs as there is room for run
 * at the same time, in shared passes over the weights.  When a job ends, the
 * next one starts at once.  Passes mix parts of new prompts with generated
 * tokens.  A common prefix of several prompts is read once.  The tokens of a
 * job are those it gets alone, whatever other jobs run and however little
 * memory there is.
 */
struct qwen_work;

struct qwen_work_opts {
	struct qwen_model *model;
	struct qwen_cache *cache;	/* of this model */
	size_t		 n_sequences;	/* that run together; 0: a default */
	size_t		 n_pass;	/* tokens per pass, about; 0: a default.
					   Never changes a result */
	/*
	 * For speculative decoding, used while few jobs run; or NULL.  Changes
	 * no result.
	 */
	struct qwen_drafts *drafts;
	struct qwen_store *store;	/* to restore prefixes from and save
					   them to; or NULL */
	/*
	 * Number of prefixes to keep in memory for later jobs, as conversations
	 * need (at least n_sequences): the tokens that a job has read and its
	 * answer stay after its end, while the cache has room; then the least
	 * recently used prefix is dropped.  0: keep only prefixes that waiting
	 * jobs share.
	 */
	size_t		 n_keep;
	/*
	 * Target for the longest pass in seconds while other jobs generate:
	 * prompts are read in chunks that fit; while no job generates, four
	 * times as long.  Half of each chunk is for the prompt with the fewest
	 * tokens left, so that it need not wait for long ones.  0: only n_pass
	 * limits a chunk, and the oldest prompt goes first.
	 */
	double		 pause_s;
};

/* A generated token. */
struct qwen_choice {
	int32_t		 id;
	size_t		 n;		/* tokens generated so far */
	/* if requested, of the row before penalties and temperature: */
	double		 logprob;	/* natural logarithm */
	const struct qwen_sample_top *top;
	size_t		 n_top;
};

enum qwen_job_end {
	QWEN_JOB_ENDING,	/* the last token ends the text */
	QWEN_JOB_REPEATS,	/* the tokens are an endless loop */
	QWEN_JOB_ENOUGH,	/* the callback returned 1 */
	QWEN_JOB_LENGTH,	/* max tokens, or the context is full; or all
				   scores or hidden states were reported */
	QWEN_JOB_FAILED,
	QWEN_JOB_CANCELLED,	/* by qwen_work_cancel */
};

enum { QWEN_JOB_TOP_MAX = 64, QWEN_JOB_KEEP_MAX = 64 };

/* The likelihood of a given token after the tokens before it. */
struct qwen_score {
	size_t		 at;		/* its index in the job's tokens */
	double		 logprob;	/* natural logarithm of its softmax */
	size_t		 rank;		/* number of better tokens, or equal
					   ones with a lower id */
	/* valid until the callback returns: */
	const float	*logits;	/* the row */
	const struct qwen_sample_top *top;	/* its best tokens, if
						   requested */
	size_t		 n_top;
};

struct qwen_job {
	const int32_t	*tokens;	/* the prompt, at least one; copied */
	size_t		 n;
	size_t		 max;		/* tokens to generate, at least 1 */
	/*
	 * Chooses the tokens: must not have begun; owned by the job if the job
	 * is accepted.  NULL: greedy.
	 */
	struct qwen_sampler *sampler;
	const int32_t	*ending;	/* tokens that end the text; borrowed */
	size_t		 n_ending;
	int		 logprobs;	/* report log-probabilities */
	size_t		 n_top;		/* report this many best tokens, too */
	/*
	 * Called for each token, in order; returns 1 to stop. c lives until it
	 * returns.
	 */
	int	(*token)(void *arg, const struct qwen_choice *c);
	/*
	 * If not NULL, the job generates nothing, and score is called for each
	 * of the tokens from .. n - 1, in order, with the n_top best; 1 <= from
	 * < n. max, sampler, ending, logprobs and token are ignored.
	 */
	void	(*score)(void *arg, const struct qwen_score *s);
	size_t		 from;
	/*
	 * The same with the hidden state after the output norm of each of the
	 * tokens from .. n - 1 (qwen_model_n_embd numbers, valid until it
	 * returns).  Computes no logits.  Tokens before from may come from
	 * other jobs or the store, so request no more than needed.
	 */
	void	(*hidden)(void *arg, size_t at, const float *x);
	/*
	 * Waiting jobs start by priority, highest first, then by age; running
	 * jobs are preempted in the opposite order.
	 */
	int		 priority;
	/*
	 * Positions in the prompt (ascending, at most QWEN_JOB_KEEP_MAX) after
	 * which later prompts may differ, such as the ends of turns.  The
	 * prefix up to each position is kept, if it is at least 16 tokens
	 * longer than the previous one.
	 */
	const size_t	*keep;		/* copied; or NULL */
	size_t		 n_keep;
	/*
	 * Called once, before all other callbacks, when the job starts:
	 * n_cached of its tokens need not be read.  May be NULL.
	 */
	void	(*begun)(void *arg, size_t n_cached);
	/*
	 * Called after each pass that read tokens of the prompt: n_read tokens
	 * are read so far, including the cached ones.  May be NULL.
	 */
	void	(*read)(void *arg, size_t n_read);
	/* Called once; err says why the job failed, else it is NULL. */
	void	(*end)(void *arg, enum qwen_job_end why,
		    const struct qwen_err *err);
	void	*arg;
	/*
	 * The spans that the tokens are part of, as in struct qwen_eval;
	 * borrowed until the job ends.  Rows have no score.  The rows of a span
	 * may be NULL if its tokens are cached: a job that must read them fails
	 * with QWEN_EMISMATCH before it begins, or when it begins again after
	 * it made room for others.
	 */
	const struct qwen_span_rows *spans;
	size_t		 n_spans;
};

int qwen_work_new_sized(size_t size, struct qwen_work **out,
    const struct qwen_work_opts *o, struct qwen_err *err);
#define qwen_work_new(...) \
	qwen_work_new_sized(sizeof(struct qwen_work_opts), __VA_ARGS__)
void qwen_work_free(struct qwen_work *w);

/*
 * Adds a job to the queue.  QWEN_ERANGE for a token outside the vocabulary or a
 * prompt that fills the context, QWEN_EFULL for a job that needs more than the
 * whole cache.
 */
int qwen_work_add_sized(size_t size, struct qwen_work *w,
    const struct qwen_job *job, struct qwen_err *err);
#define qwen_work_add(...) \
	qwen_work_add_sized(sizeof(struct qwen_job), __VA_ARGS__)

/*
 * Cancels all jobs whose arg this is, waiting or running; returns their number.
 * The tokens that they have read may be kept as a prefix.  If called from a
 * callback, the jobs end with the current step.
 */
size_t qwen_work_cancel(struct qwen_work *w, const void *arg);

/*
 * Tells how many of these tokens a job would find already read: *kept in
 * memory, *stored in the store.  Any ids are allowed.
 */
int qwen_work_cached(const struct qwen_work *w, const int32_t *tokens, size_t n,
    size_t *kept, size_t *stored, struct qwen_err *err);

/*
 * Saves one prefix that is kept in memory (n_keep) and not yet in the store:
 * returns 1, or 0 if there is none.  Prefixes dropped from memory are saved
 * anyway; call this when idle and before the end.
 */
int qwen_work_store(struct qwen_work *w, struct qwen_err *err);

/* Return the number of jobs that have not ended, and of those still waiting. */
size_t qwen_work_n_jobs(const struct qwen_work *w);
size_t qwen_work_n_waiting(const struct qwen_work *w);

/*
 * Runs one pass.  Returns 1, or 0 if there is nothing to do.  An error of one
 * job ends only that job; -1 means that all work failed.
 */
int qwen_work_step(struct qwen_work *w, struct qwen_err *err);

struct qwen_work_stats {
	uint64_t	 n_passes;
	uint64_t	 read;		/* prompt tokens read */
	uint64_t	 shared;	/* prompt tokens that other jobs had
					   read */
	uint64_t	 stored;	/* prompt tokens from the store */
	uint64_t	 chosen;	/* tokens generated */
	uint64_t	 scored;	/* tokens scored */
	uint64_t	 cancelled;	/* jobs */
	uint64_t	 n_kept;	/* prefixes in memory */
	uint64_t	 preempted;	/* jobs preempted */
	uint64_t	 again;		/* tokens read again after preemption */
	uint64_t	 max_sequences;	/* jobs that ran together */
	uint64_t	 max_bytes;	/* of cache in use */
	double		 wasted;	/* share of unused positions in KV
					   blocks, mean over passes */
	double		 pass_s;	/* seconds spent in passes */
};

void qwen_work_stats(const struct qwen_work *w, struct qwen_work_stats *out);

#ifdef __cplusplus
}
#endif

#endif
