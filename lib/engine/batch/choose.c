/* SPDX-License-Identifier: ISC */
/*
 * choose.c - chooses the next token of all ready jobs.  Choosing reads a whole
 * row of logits per job, so all threads share that work; the rest runs on one
 * thread.
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/batch/batch.h"
#include "engine/quant/logprob.h"
#include "engine/timeline/session.h"

/*
 * Gives the thread's candidates list to the sampler, and, the first time,
 * begins the sampler with the job's text.
 */
static int
begin_sampling(struct qwen_work *w, struct qwen_batch_job *t, int thread)
{
	struct qwen_cands *list = &w->list[thread];

	if (list->cap == 0 && qwen_cands_init(list, w->n_vocab, &t->err) < 0)
		return -1;
	qwen_sampler_lend(t->job.sampler, list);
	if (t->sampler_begun)
		return 0;
	t->sampler_begun = 1;
	if (qwen_sampler_begin(t->job.sampler, w->n_vocab, &t->err) < 0)
		return -1;
	return qwen_sampler_accept(t->job.sampler, t->text, t->n, 0, &t->err);
}

static int
choose_token(struct qwen_work *w, struct qwen_batch_job *t, const float *row,
    int thread)
{
	struct qwen_choice *c = &t->choice;
	size_t above;
	double sum;
	int finite;

	if (t->job.sampler == NULL)
		c->id = (int32_t)qwen_sample_best(w->sift, row, w->n_vocab,
		    &finite);
	else if (begin_sampling(w, t, thread) < 0 ||
	    qwen_sampler_sample(t->job.sampler, row, NULL, w->n_vocab, t->n,
	    &c->id, &t->err) < 0 ||
	    qwen_sampler_accept(t->job.sampler, &c->id, 1, 1, &t->err) < 0)
		return -1;
	if (!t->job.logprobs)
		return 0;
	sum = qwen_logprob_sum(row, w->n_vocab, -1, &above);
	c->logprob = (double)row[c->id] - sum;
	c->top = t->top;
	c->n_top = qwen_logprob_top(row, w->n_vocab, sum, t->top,
	    t->job.n_top);
	return 0;
}

static void
choose_one(void *arg, size_t item, int thread)
{
	struct qwen_work *w = arg;
	struct qwen_batch_job *t = w->ready[item];
	const float *row = qwen_session_logits(t->s);

	t->failed = 0;
	if (!qwen_batch_job_generates(t))	/* scores and hidden states were
					   reported during the pass */
		return;
	t->failed = row == NULL ? qwen_fail(&t->err, QWEN_ENUMERIC,
	    "no logits to sample from") : choose_token(w, t, row, thread);
}

static int
append(struct qwen_batch_job *t, int32_t id)
{
	if (qwen_grow(&t->text, &t->cap, t->n + 1, sizeof *t->text) < 0)
		return -1;
	t->text[t->n++] = id;
	return 0;
}

static int
is_ending(const struct qwen_batch_job *t)
{
	size_t i;

	for (i = 0; i < t->job.n_ending; i++) {
		if (t->job.ending[i] == t->choice.id)
			return 1;
	}
	return 0;
}

/* Reports the token, and ends the job if it was the last. */
static int
finish_token(struct qwen_work *w, struct qwen_batch_job *t,
    struct qwen_err *err)
{
	int enough, stopped;

	if (t->failed) {
		qwen_batch_job_end(w, t, QWEN_JOB_FAILED, &t->err);
		return 0;
	}
	if (!qwen_batch_job_generates(t)) {
		qwen_batch_job_end(w, t, QWEN_JOB_LENGTH, NULL);
		return 0;
	}
	if (append(t, t->choice.id) < 0)
		return qwen_oom(err);
	w->stats.chosen++;
	t->choice.n = t->n - t->n_prompt;
	enough = t->job.token(t->job.arg, &t->choice);
	stopped = t->job.sampler != NULL ?
	    qwen_sampler_stopped(t->job.sampler) : 0;
	if (is_ending(t) || stopped == QWEN_STOPPED_TEXT)
		qwen_batch_job_end(w, t, QWEN_JOB_ENDING, NULL);
	else if (stopped != 0)
		qwen_batch_job_end(w, t, QWEN_JOB_REPEATS, NULL);
	else if (enough)
		qwen_batch_job_end(w, t, QWEN_JOB_ENOUGH, NULL);
	else if (t->choice.n >= t->job.max || t->n >= w->n_ctx)
		qwen_batch_job_end(w, t, QWEN_JOB_LENGTH, NULL);
	return 0;
}

int
qwen_work_choose(struct qwen_work *w, struct qwen_err *err)
{
	size_t i;

	qwen_pool_run(qwen_model_pool(w->o.model), choose_one, w, w->n_ready);
	for (i = 0; i < w->n_ready; i++) {
		if (finish_token(w, w->ready[i], err) < 0)
			return -1;
	}
	return 0;
}
