/* SPDX-License-Identifier: ISC */
/*
 * pass.c - what to read next, in one pass over the weights.
 *
 * Every generating job has one token.  The rest of the pass goes to jobs that
 * read prompts, the oldest first; if passes must be short, half of the rest
 * goes to the job with the fewest tokens left to read.
 */
#include <time.h>

#include "base/err.h"
#include "engine/batch/batch.h"

enum { LEAST_READ = 32, FEW_ROWS = 16 };

/*
 * Number of tokens to evaluate in the next chunk of at most n tokens.  Avoids
 * computing rows of logits that no caller needs, if there are more than a few:
 * the first needed row is then the last of its chunk.
 */
static size_t
chunk_tokens(const struct qwen_batch_job *t, size_t done, size_t n)
{
	if (t->job.score != NULL && t->next > done + FEW_ROWS &&
	    t->next < done + n)
		return t->next - done;
	return n;
}

static enum qwen_logits
logits_wanted(const struct qwen_batch_job *t, size_t end)
{
	if (t->job.hidden != NULL)
		return end <= t->next ? QWEN_LOGITS_NONE :
		    end == t->next + 1 ? QWEN_LOGITS_LAST : QWEN_LOGITS_ALL;
	if (t->job.score != NULL && end > t->next)
		return QWEN_LOGITS_ALL;
	return end == t->n || end == t->next_keep || (t->job.score != NULL &&
	    end == t->next) ? QWEN_LOGITS_LAST : QWEN_LOGITS_NONE;
}

static void
add_part(struct qwen_work *w, struct qwen_batch_job *t, size_t n)
{
	size_t done = qwen_batch_job_done(t), end = done + n;

	w->owner[w->n_part] = t;
	w->part[w->n_part++] = (struct qwen_part){
		.s = t->s, .tokens = t->text + done, .n = n,
		.logits = logits_wanted(t, end),
		.row = qwen_batch_job_generates(t) ? NULL : qwen_batch_job_row,
		    .arg = t,
		.hidden = t->job.hidden != NULL,
		.spans = t->job.spans, .n_spans = t->job.n_spans,
	};
}

/*
 * Adds up to n more tokens of the job's prompt to the pass; returns their
 * number.
 */
static size_t
add_prompt_part(struct qwen_work *w, struct qwen_batch_job *t, size_t most)
{
	size_t done = qwen_batch_job_done(t);
	size_t left = (t->next_keep > done ? t->next_keep : t->n) - done;
	size_t n = chunk_tokens(t, done, left < most ? left : most);

	add_part(w, t, n);
	return n;
}

/*
 * Returns the job with the fewest prompt tokens left to read; NULL if that is
 * the first job that reads.
 */
static struct qwen_batch_job *
shortest_prompt(const struct qwen_work *w)
{
	struct qwen_batch_job *first = NULL, *best = NULL, *t;
	size_t i;

	for (i = 0; i < w->n_active; i++) {
		t = w->active[i];
		if (qwen_batch_job_done(t) + 1 >= t->n)
			continue;
		if (first == NULL)
			first = t;
		if (best == NULL || t->n - qwen_batch_job_done(t) <
		    best->n - qwen_batch_job_done(best))
			best = t;
	}
	return best != first ? best : NULL;
}

/* Returns how many tokens a pass may have, given the time limit for passes. */
static size_t
pass_budget(const struct qwen_work *w)
{
	double n, pause = w->n_part > 0 ? w->o.pause_s : 4 * w->o.pause_s;

	if (w->o.pause_s <= 0)
		return w->o.n_pass;
	n = w->pace > 0 ? w->pace * pause : 2 * LEAST_READ;
	return n < (double)w->o.n_pass ? (size_t)n : w->o.n_pass;
}

/*
 * Proposes draft tokens for a pass in which every job has one token, oldest job
 * first.
 */
static int
propose_drafts(struct qwen_work *w, struct qwen_err *err)
{
	struct qwen_draft_pass pass = { .rows = w->n_part,
	    .tokens = (double)w->n_part };
	size_t i, left;

	for (i = 0; i < w->n_part; i++) {
		struct qwen_batch_job *t = w->owner[i];
		struct qwen_part *p = &w->part[i];

		if (t->drafter == NULL && qwen_drafter_new(&t->drafter,
		    w->o.drafts, err) < 0)
			return -1;
		/* tokens that may follow the one that is read */
		left = t->job.max - (t->n - t->n_prompt);
		pass.max_drafts = left < QWEN_GUESS_MAX ? left : QWEN_GUESS_MAX;
		if (qwen_drafter_propose(t->drafter, t->s, t->text[t->n - 1],
		    &pass, &p->guess, &p->n_guess, err) < 0)
			return -1;
		pass.rows += p->n_guess;
	}
	return 0;
}

static int
compose_pass(struct qwen_work *w, struct qwen_err *err)
{
	size_t i, budget, n_one;
	struct qwen_batch_job *t, *next = NULL;

	w->n_part = 0;
	for (i = 0; i < w->n_active; i++) {
		if (qwen_batch_job_done(w->active[i]) + 1 == w->active[i]->n)
			add_part(w, w->active[i], 1);
	}
	n_one = w->n_part;
	budget = pass_budget(w);
	budget -= budget < w->n_part ? budget : w->n_part;
	/* read some prompt tokens however many jobs generate */
	if (budget < LEAST_READ)
		budget = LEAST_READ;
	/*
	 * with short passes, the shortest prompt gets half, so it need not wait
	 * for long ones
	 */
	if (w->o.pause_s > 0 && (next = shortest_prompt(w)) != NULL)
		budget -= add_prompt_part(w, next, budget / 2);
	for (i = 0; i < w->n_active && budget > 0; i++) {
		t = w->active[i];
		if (t != next && qwen_batch_job_done(t) + 1 < t->n)
			budget -= add_prompt_part(w, t, budget);
	}
	/*
	 * no drafts while prompts are read: such a pass is limited by
	 * computation
	 */
	return w->o.drafts != NULL && n_one == w->n_part ?
	    propose_drafts(w, err) : 0;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Preempts the last job: frees its session and makes it wait. */
static void
preempt(struct qwen_work *w)
{
	struct qwen_batch_job *t = w->active[--w->n_active];

	t->n_seen = qwen_batch_job_done(t) > t->n_seen ?
	    qwen_batch_job_done(t) :
	    t->n_seen;
	qwen_session_free(t->s);
	t->s = NULL;
	t->next_keep = 0;
	w->preempted = 1;
	w->stats.preempted++;
	qwen_batch_job_insert(w->waiting, &w->n_waiting, t);
}

/*
 * Frees memory after a pass found no room: drops a prefix, preempts a job, or
 * fails the only job.
 */
static void
make_room(struct qwen_work *w, const struct qwen_err *why)
{
	struct qwen_err err;

	if (qwen_prefix_drop(w, NULL))
		return;
	if (w->n_active > 1) {
		preempt(w);
		return;
	}
	qwen_fail(&err, QWEN_EFULL, "no room for token %zu: %s",
	    qwen_batch_job_done(w->active[0]) + 1, why->msg);
	qwen_batch_job_end(w, w->active[0], QWEN_JOB_FAILED, &err);
}

/* Count the prompt tokens of this pass, and report them to the job. */
static void
count_prompt(struct qwen_work *w, const struct qwen_part *p,
    const struct qwen_batch_job *t)
{
	size_t to = qwen_batch_job_done(t), from = to - p->n;

	if (from < t->n_seen)
		w->stats.again += (to < t->n_seen ? to : t->n_seen) - from;
	else if (from < t->n_prompt) {
		to = to < t->n_prompt ? to : t->n_prompt;
		w->stats.read += to - from;
		if (t->job.read != NULL)
			t->job.read(t->job.arg, to);
	}
}

static int
finish_parts(struct qwen_work *w, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < w->n_part; i++) {
		struct qwen_batch_job *t = w->owner[i];

		if (w->part[i].failed) {
			qwen_batch_job_end(w, t, QWEN_JOB_FAILED,
			    &w->part[i].err);
			continue;
		}
		count_prompt(w, &w->part[i], t);
		if (t->next_keep != 0 &&
		    qwen_batch_job_done(t) == t->next_keep &&
		    qwen_prefix_keep(w, t, err) < 0)
			return -1;
	}
	return 0;
}

/* Updates the speed of passes that read prompts; other passes are ignored. */
static void
note_pace(struct qwen_work *w, double s)
{
	size_t i, n = 0;
	double pace;

	for (i = 0; i < w->n_part; i++)
		n += w->part[i].n;
	if (n < w->n_part + LEAST_READ / 2 || s <= 0)
		return;
	pace = (double)n / s;
	w->pace = w->pace > 0 ? (w->pace + pace) / 2 : pace;
}

static int
all_single(const struct qwen_work *w)
{
	size_t i;

	for (i = 0; i < w->n_part && w->part[i].n == 1; i++)
		;
	return i == w->n_part;
}

/* Returns the rows of the pass, with the verified draft tokens. */
static size_t
rows_of(const struct qwen_work *w)
{
	size_t i, n = w->n_part;

	for (i = 0; i < w->n_part; i++)
		n += qwen_session_n_guessed(w->part[i].s);
	return n;
}

int
qwen_work_pass(struct qwen_work *w, struct qwen_err *err)
{
	double start = now(), begun, end;

	for (;;) {
		if (compose_pass(w, err) < 0)
			return -1;
		if (w->n_part == 0)
			return 0;
		begun = now();
		if (qwen_eval_parts(w->part, w->n_part, err) == 0)
			break;
		if (err->code != QWEN_EFULL)
			return -1;
		make_room(w, err);
	}
	end = now();
	w->stats.pass_s += end - start;
	w->stats.n_passes++;
	note_pace(w, end - begun);
	if (w->o.drafts != NULL && all_single(w))
		qwen_drafts_passed(w->o.drafts, rows_of(w), end - begun);
	return finish_parts(w, err);
}
