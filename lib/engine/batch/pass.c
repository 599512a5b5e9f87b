/* SPDX-License-Identifier: ISC */
/*
 * pass.c - what is read next, in one pass over the weights.
 *
 * Everyone who generates has one token; the rest of the pass goes to those who
 * read prompts, the oldest first.
 */
#include <time.h>

#include "base/err.h"
#include "engine/batch/batch.h"

enum { LEAST_READ = 32, FEW_ROWS = 16 };

/*
 * How far to read on a way of n tokens.  Rows of logits that nobody looks at are
 * not computed, if they are more than a few: the first that is wanted is then
 * the last of its part.
 */
static size_t
way(const struct qwen_task *t, size_t done, size_t n)
{
	if (t->job.score != NULL && t->next > done + FEW_ROWS &&
	    t->next < done + n)
		return t->next - done;
	return n;
}

static enum qwen_logits
rows(const struct qwen_task *t, size_t end)
{
	if (t->job.hidden != NULL)
		return end <= t->next ? QWEN_LOGITS_NONE :
		    end == t->next + 1 ? QWEN_LOGITS_LAST : QWEN_LOGITS_ALL;
	if (t->job.score != NULL && end > t->next)
		return QWEN_LOGITS_ALL;
	return end == t->n || end == t->branch || (t->job.score != NULL &&
	    end == t->next) ? QWEN_LOGITS_LAST : QWEN_LOGITS_NONE;
}

static void
add_part(struct qwen_work *w, struct qwen_task *t, size_t n)
{
	size_t done = qwen_task_done(t), end = done + n;

	w->owner[w->n_part] = t;
	w->part[w->n_part++] = (struct qwen_part){
		.s = t->s, .tokens = t->text + done, .n = n,
		.logits = rows(t, end),
		.row = qwen_task_generates(t) ? NULL : qwen_task_row, .arg = t,
		.hidden = t->job.hidden != NULL,
	};
}

void
qwen_work_compose(struct qwen_work *w)
{
	size_t i, n, left, done, budget = w->o.n_pass;
	struct qwen_task *t;

	w->n_part = 0;
	for (i = 0; i < w->n_active; i++) {
		if (qwen_task_done(w->active[i]) + 1 == w->active[i]->n) {
			add_part(w, w->active[i], 1);
			budget -= budget > 0;
		}
	}
	/* prompts go on, however many there are that generate */
	if (budget < LEAST_READ)
		budget = LEAST_READ;
	for (i = 0; i < w->n_active && budget > 0; i++) {
		t = w->active[i];
		done = qwen_task_done(t);
		if (done + 1 >= t->n)
			continue;
		left = (t->branch > done ? t->branch : t->n) - done;
		n = way(t, done, left < budget ? left : budget);
		add_part(w, t, n);
		budget -= n;
	}
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The youngest gives up its session and waits. */
static void
preempt(struct qwen_work *w)
{
	struct qwen_task *t = w->active[--w->n_active];

	t->n_seen = qwen_task_done(t) > t->n_seen ? qwen_task_done(t) :
	    t->n_seen;
	qwen_session_free(t->s);
	t->s = NULL;
	t->branch = 0;
	w->tight = 1;
	w->stats.preempted++;
	qwen_task_insert(w->waiting, &w->n_waiting, t);
}

/* There was no room for the pass. */
static void
make_room(struct qwen_work *w, const struct qwen_err *why)
{
	struct qwen_err err;

	if (qwen_node_drop(w, NULL))
		return;
	if (w->n_active > 1) {
		preempt(w);
		return;
	}
	qwen_fail(&err, QWEN_EFULL, "no room for token %zu: %s",
	    qwen_task_done(w->active[0]) + 1, why->msg);
	qwen_task_end(w, w->active[0], QWEN_JOB_FAILED, &err);
}

/* What was read now, and what had been read before. */
static void
count(struct qwen_work *w, const struct qwen_part *p,
    const struct qwen_task *t)
{
	size_t to = qwen_task_done(t), from = to - p->n;

	if (from < t->n_seen)
		w->stats.again += (to < t->n_seen ? to : t->n_seen) - from;
	else if (from < t->n_prompt)
		w->stats.read += (to < t->n_prompt ? to : t->n_prompt) - from;
}

static int
settle(struct qwen_work *w, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < w->n_part; i++) {
		struct qwen_task *t = w->owner[i];

		if (w->part[i].failed) {
			qwen_task_end(w, t, QWEN_JOB_FAILED, &w->part[i].err);
			continue;
		}
		count(w, &w->part[i], t);
		if (t->branch != 0 && qwen_task_done(t) == t->branch &&
		    qwen_node_leave(w, t, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_work_pass(struct qwen_work *w, struct qwen_err *err)
{
	double start = now();

	for (;;) {
		qwen_work_compose(w);
		if (w->n_part == 0)
			return 0;
		if (qwen_eval_parts(w->part, w->n_part, err) == 0)
			break;
		if (err->code != QWEN_EFULL)
			return -1;
		make_room(w, err);
	}
	w->stats.pass_s += now() - start;
	w->stats.n_passes++;
	return settle(w, err);
}
