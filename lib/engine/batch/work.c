/* SPDX-License-Identifier: ISC */
/* work.c - the queue of jobs, and the steps of the work. */
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/sized.h"
#include "engine/batch/batch.h"
#include "engine/quant/logprob.h"
#include "engine/timeline/session.h"

enum { DEFAULT_SEQUENCES = 32, MAX_SEQUENCES = 4096, DEFAULT_PASS = 512,
    LEAST_PREFIXES = 8, MAX_PREFIXES = 1 << 16 };

static int
allocate(struct qwen_work *w)
{
	size_t n = w->o.n_sequences;

	w->active = qwen_alloc(n, sizeof *w->active);
	w->part = qwen_alloc(n, sizeof *w->part);
	w->owner = qwen_alloc(n, sizeof *w->owner);
	w->ready = qwen_alloc(n, sizeof *w->ready);
	w->cap_prefix = n > LEAST_PREFIXES ? n : LEAST_PREFIXES;
	if (w->cap_prefix < w->o.n_keep)
		w->cap_prefix = w->o.n_keep;
	w->prefix = qwen_alloc(w->cap_prefix, sizeof *w->prefix);
	w->list = qwen_alloc((size_t)qwen_model_n_threads(w->o.model),
	    sizeof *w->list);
	w->row_part = qwen_alloc(qwen_logprob_n_parts(w->n_vocab),
	    sizeof *w->row_part);
	return w->active == NULL || w->part == NULL || w->owner == NULL ||
	    w->ready == NULL || w->prefix == NULL || w->row_part == NULL ||
	    w->list == NULL ? -1 : 0;
}

int
qwen_work_new_sized(size_t size, struct qwen_work **out,
    const struct qwen_work_opts *o, struct qwen_err *err)
{
	struct qwen_work_opts own;
	struct qwen_work *w;

	*out = NULL;
	if (QWEN_SIZED(o, own, size, err) < 0)
		return -1;
	if (!qwen_cache_is_of(o->cache, o->model))
		return qwen_fail(err, QWEN_EMISMATCH,
		    "the cache belongs to another model");
	if ((w = qwen_alloc(1, sizeof *w)) == NULL)
		return qwen_oom(err);
	w->o = *o;
	if (w->o.n_sequences == 0)
		w->o.n_sequences = DEFAULT_SEQUENCES;
	if (w->o.n_sequences > MAX_SEQUENCES)
		w->o.n_sequences = MAX_SEQUENCES;
	if (w->o.n_pass == 0)
		w->o.n_pass = DEFAULT_PASS;
	if (w->o.n_keep > MAX_PREFIXES)
		w->o.n_keep = MAX_PREFIXES;
	w->n_vocab = qwen_model_n_vocab(o->model);
	w->n_ctx = qwen_model_n_ctx(o->model);
	w->sift = qwen_sift_choose(qwen_cpu_detect());
	qwen_cache_usage(o->cache, &w->usage);
	if (allocate(w) < 0) {
		qwen_work_free(w);
		return qwen_oom(err);
	}
	if (o->store != NULL && qwen_model_header(&w->header, o->model,
	    QWEN_STREAM_STATE, err) < 0) {
		qwen_work_free(w);
		return -1;
	}
	*out = w;
	return 0;
}

static void
free_job(struct qwen_batch_job *t)
{
	qwen_session_free(t->s);
	qwen_drafter_free(t->drafter);
	qwen_sampler_free(t->job.sampler);
	free(t->top);
	free(t->keep);
	free(t->text);
	free(t);
}

void
qwen_work_free(struct qwen_work *w)
{
	size_t i;

	if (w == NULL)
		return;
	for (i = 0; i < w->n_waiting; i++)
		free_job(w->waiting[i]);
	for (i = 0; w->list != NULL &&
	    i < (size_t)qwen_model_n_threads(w->o.model); i++)
		qwen_cands_fini(&w->list[i]);
	free(w->list);
	for (i = 0; i < w->n_active; i++)
		free_job(w->active[i]);
	for (i = 0; i < w->n_prefix; i++)
		qwen_prefix_free(w->prefix[i]);
	free(w->waiting);
	free(w->active);
	free(w->prefix);
	free(w->part);
	free(w->owner);
	free(w->ready);
	free(w->row_part);
	free(w);
}

/* ------------------------------------------------------------- the queue */

static int
check_job(const struct qwen_work *w, const struct qwen_job *job,
    struct qwen_err *err)
{
	uint64_t need = qwen_cache_need(w->o.model, job->n);
	int generates = job->score == NULL && job->hidden == NULL;

	if (job->n == 0)
		return qwen_fail(err, QWEN_ERANGE, "the prompt has no tokens");
	if (job->n_top > QWEN_JOB_TOP_MAX)
		return qwen_fail(err, QWEN_ERANGE, "n_top is %zu; the limit is "
		    "%d", job->n_top, QWEN_JOB_TOP_MAX);
	if (job->n_keep > QWEN_JOB_KEEP_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%zu positions to keep; the "
		    "limit is %d", job->n_keep, QWEN_JOB_KEEP_MAX);
	if (job->score != NULL && job->hidden != NULL)
		return qwen_fail(err, QWEN_ERANGE,
		    "a job has either score or hidden, not both");
	if (generates && job->max == 0)
		return qwen_fail(err, QWEN_ERANGE, "max must be at least 1");
	if (qwen_spans_check(w->o.model, 0, job->tokens, job->n, job->spans,
	    job->n_spans, 0, err) < 0)
		return -1;
	if (job->score != NULL && (job->from < 1 || job->from >= job->n))
		return qwen_fail(err, QWEN_ERANGE,
		    "scores from token %zu of %zu: out of range", job->from,
		    job->n);
	if (job->hidden != NULL && job->from >= job->n)
		return qwen_fail(err, QWEN_ERANGE,
		    "hidden states from token %zu of %zu: out of range",
		    job->from, job->n);
	/* at least one token will be generated */
	if (job->n - !generates >= w->n_ctx)
		return qwen_fail(err, QWEN_ERANGE,
		    "%zu tokens exceed the model's context of %zu", job->n,
		    w->n_ctx);
	if (w->usage.limit != 0 && need > w->usage.limit)
		return qwen_fail(err, QWEN_EFULL,
		    "%zu tokens need %llu bytes of memory, but the limit is "
		    "%llu",
		    job->n, (unsigned long long)need,
		    (unsigned long long)w->usage.limit);
	return 0;
}

int
qwen_work_add_sized(size_t size, struct qwen_work *w,
    const struct qwen_job *job, struct qwen_err *err)
{
	struct qwen_batch_job *t;
	struct qwen_job own;

	if (QWEN_SIZED(job, own, size, err) < 0 ||
	    check_job(w, job, err) < 0)
		return -1;
	t = qwen_alloc(1, sizeof *t);
	/* room for every job, since running jobs may have to wait again */
	if (t == NULL || qwen_grow(&w->waiting, &w->cap_waiting,
	    w->n_waiting + w->n_active + 1, sizeof *w->waiting) < 0)
		goto nomem;
	t->cap = job->n + 64;
	t->text = qwen_alloc(t->cap, sizeof *t->text);
	t->top = qwen_alloc(job->n_top + 1, sizeof *t->top);
	t->keep = qwen_alloc(job->n_keep + 1, sizeof *t->keep);
	if (t->text == NULL || t->top == NULL || t->keep == NULL)
		goto nomem;
	if (job->n_keep > 0)
		memcpy(t->keep, job->keep, job->n_keep * sizeof *t->keep);
	t->job = *job;
	t->job.tokens = NULL;
	t->job.keep = NULL;
	memcpy(t->text, job->tokens, job->n * sizeof *t->text);
	t->n = t->n_prompt = job->n - (job->score != NULL);
	t->work = w;
	t->next = job->from;
	t->seq = w->next_seq++;
	qwen_batch_job_insert(w->waiting, &w->n_waiting, t);
	return 0;
nomem:
	if (t != NULL)
		free_job(t);
	return qwen_oom(err);
}

static int
goes_after(const struct qwen_batch_job *a, const struct qwen_batch_job *b)
{
	if (a->job.priority != b->job.priority)
		return a->job.priority < b->job.priority;
	return a->seq > b->seq;
}

void
qwen_batch_job_insert(struct qwen_batch_job **list, size_t *n,
    struct qwen_batch_job *t)
{
	size_t i = (*n)++;

	for (; i > 0 && goes_after(list[i - 1], t); i--)
		list[i] = list[i - 1];
	list[i] = t;
}

/* Removes the job from a list; returns 1 if it was there. */
static int
remove_job(struct qwen_batch_job **list, size_t *n,
    const struct qwen_batch_job *t)
{
	size_t i;

	for (i = 0; i < *n && list[i] != t; i++)
		;
	if (i == *n)
		return 0;
	--*n;
	memmove(list + i, list + i + 1, (*n - i) * sizeof *list);
	return 1;
}

void
qwen_batch_job_end(struct qwen_work *w, struct qwen_batch_job *t,
    enum qwen_job_end why, const struct qwen_err *err)
{
	if (!remove_job(w->active, &w->n_active, t))
		remove_job(w->waiting, &w->n_waiting, t);
	w->preempted = 0;
	w->stats.cancelled += why == QWEN_JOB_CANCELLED;
	if (why != QWEN_JOB_FAILED)
		qwen_prefix_keep_session(w, t);
	t->job.end(t->job.arg, why, why == QWEN_JOB_FAILED ? err : NULL);
	free_job(t);
}

/* Returns a cancelled job of the list, or NULL. */
static struct qwen_batch_job *
find_cancelled(struct qwen_batch_job **list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (list[i]->cancelled)
			return list[i];
	}
	return NULL;
}

/* Ends the cancelled jobs.  Their callbacks may cancel more jobs. */
static void
end_cancelled(struct qwen_work *w)
{
	struct qwen_batch_job *t;

	while ((t = find_cancelled(w->active, w->n_active)) != NULL ||
	    (t = find_cancelled(w->waiting, w->n_waiting)) != NULL)
		qwen_batch_job_end(w, t, QWEN_JOB_CANCELLED, NULL);
}

static size_t
mark_cancelled(struct qwen_batch_job **list, size_t n, const void *arg)
{
	size_t i, marked = 0;

	for (i = 0; i < n; i++) {
		if (list[i]->job.arg == arg && !list[i]->cancelled) {
			list[i]->cancelled = 1;
			marked++;
		}
	}
	return marked;
}

size_t
qwen_work_cancel(struct qwen_work *w, const void *arg)
{
	size_t n = mark_cancelled(w->active, w->n_active, arg) +
	    mark_cancelled(w->waiting, w->n_waiting, arg);

	/*
	 * within a step, jobs end only after it, when no pass or loop uses them
	 */
	if (!w->in_step) {
		w->in_step = 1;
		end_cancelled(w);
		w->in_step = 0;
	}
	return n;
}

size_t
qwen_work_n_jobs(const struct qwen_work *w)
{
	return w->n_waiting + w->n_active;
}

size_t
qwen_work_n_waiting(const struct qwen_work *w)
{
	return w->n_waiting;
}

/* ------------------------------------------------------------------- steps */

static void
count_usage(struct qwen_work *w)
{
	struct qwen_cache_usage u;
	size_t i, n;

	qwen_cache_usage(w->o.cache, &u);
	if (u.used > w->stats.max_bytes)
		w->stats.max_bytes = u.used;
	if (w->n_active > w->stats.max_sequences)
		w->stats.max_sequences = w->n_active;
	/* only the last block of a sequence has unused positions */
	w->held += 16.0 * (double)u.n_blocks;
	w->filled += 16.0 * (double)u.n_blocks;
	for (i = 0; i < w->n_active; i++) {
		n = qwen_batch_job_done(w->active[i]);
		w->filled -= (double)((16 - n % 16) % 16);
	}
}

/* Collects the jobs whose text is read completely; returns their number. */
static size_t
find_ready(struct qwen_work *w)
{
	size_t i;

	w->n_ready = 0;
	for (i = 0; i < w->n_active; i++) {
		if (qwen_batch_job_done(w->active[i]) == w->active[i]->n)
			w->ready[w->n_ready++] = w->active[i];
	}
	return w->n_ready;
}

/* Reads tokens that were drafted and verified, without a pass. */
static void
read_guessed(struct qwen_work *w)
{
	struct qwen_err err;
	size_t i;

	for (i = w->n_active; i-- > 0; ) {
		struct qwen_batch_job *t = w->active[i];

		if (qwen_batch_job_done(t) + 1 != t->n ||
		    qwen_session_n_guessed(t->s) == 0 ||
		    qwen_session_guessed(t->s)[0] != t->text[t->n - 1])
			continue;
		if (qwen_session_eval(t->s, t->text + t->n - 1, 1, NULL,
		    &err) < 0)
			qwen_batch_job_end(w, t, QWEN_JOB_FAILED, &err);
	}
}

/* Chooses tokens as long as verified drafts allow. */
static int
choose(struct qwen_work *w, struct qwen_err *err)
{
	while (find_ready(w) > 0) {
		if (qwen_work_choose(w, err) < 0)
			return -1;
		read_guessed(w);
	}
	return 0;
}

static int
step(struct qwen_work *w, struct qwen_err *err)
{
	if (qwen_work_enter(w, err) < 0)
		return -1;
	if (choose(w, err) < 0)
		return -1;
	if (w->n_active == 0)
		return 1;
	if (qwen_work_pass(w, err) < 0)
		return -1;
	count_usage(w);
	return choose(w, err) < 0 ? -1 : 1;
}

int
qwen_work_step(struct qwen_work *w, struct qwen_err *err)
{
	struct qwen_err own;
	int rc;

	if (qwen_work_n_jobs(w) == 0)
		return 0;
	w->in_step = 1;
	rc = step(w, err != NULL ? err : &own);
	end_cancelled(w);
	w->in_step = 0;
	return rc;
}

void
qwen_work_stats(const struct qwen_work *w, struct qwen_work_stats *out)
{
	*out = w->stats;
	out->n_kept = w->n_prefix;
	out->wasted = w->held > 0 ? 1 - w->filled / w->held : 0;
}
