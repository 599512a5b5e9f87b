/* SPDX-License-Identifier: ISC */
/*
 * run.c - read texts, score their windows as jobs of the scheduler, write
 * results in order.
 */
#include <stdlib.h>
#include <string.h>

#include "qscore.h"

enum { AHEAD_BYTES = 64 << 20 };

/* A window while it is a job; begin is its start in x. */
struct window {
	struct qscore_text	*x;
	size_t			 begin;
};

void
qscore_write(const struct qscore_run *r, struct qwen_text *t)
{
	cli_write_all(cli_output_fd(r->out), cli_output_name(r->out), t);
	t->n = 0;
}

static void
write_heading(const struct qscore_run *r)
{
	struct qwen_text t = { 0 };

	qwen_text_fmt(&t, "%10s %10s %10s %12s %9s %9s  %s\n", "tokens",
	    "scored", "nats/token", "perplexity", "+-", "bits/byte", "file");
	qscore_write(r, &t);
	qwen_text_fini(&t);
}

static void
write_first(struct qscore_run *r)
{
	struct qscore_text *x = r->head;
	struct qwen_text t = { 0 };

	tool_note_failed(&r->work, x->line, &x->q.refusal);
	qscore_result(r, x, &r->total, &t);
	/* no heading if every text failed */
	if (r->table && t.n > 0) {
		write_heading(r);
		r->table = 0;
	}
	qscore_write(r, &t);
	qwen_text_fini(&t);
	if ((r->head = x->next) == NULL)
		r->tail = NULL;
	r->n--;
	r->bytes -= x->bytes;
	qwen_score_request_fini(&x->q);
	free(x->logprob);
	free(x->rank);
	free(x->top);
	free(x);
	cli_progress(++r->n_done);
}

/* Return 1 if no window of the text is left to be added as a job. */
static int
is_added(const struct qscore_text *x)
{
	return x->q.refusal.err.code != 0 || x->at >= x->q.text.n;
}

static void
write_ready(struct qscore_run *r)
{
	while (r->head != NULL && r->head->left == 0 && is_added(r->head))
		write_first(r);
}

static void
on_score(void *arg, const struct qwen_score *s)
{
	struct window *w = arg;
	struct qscore_text *x = w->x;
	size_t i = w->begin + s->at - x->q.from;

	x->logprob[i] = s->logprob;
	x->rank[i] = (uint32_t)s->rank;
	if (s->n_top > 0)
		memcpy(x->top + i * x->run->n_top, s->top,
		    s->n_top * sizeof *x->top);
	cli_progress_also(++x->run->n_scored, "tok");
	cli_progress(x->run->n_done);
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	struct window *w = arg;

	if (why == QWEN_JOB_FAILED)
		tool_refuse(&w->x->q.refusal, "failed", err);
	w->x->left--;
	free(w);
}

void
qscore_next_window(const struct qscore_run *r, struct qscore_text *x,
    struct qscore_window *w)
{
	w->first = x->at;
	w->end = x->at < r->context ? r->context : x->at + r->stride;
	if (w->end > x->q.text.n)
		w->end = x->q.text.n;
	w->begin = w->end > r->context ? w->end - r->context : 0;
	x->at = w->end;
}

static void
add_next_window(struct qscore_run *r, struct qscore_text *x)
{
	struct qscore_window at;
	struct window *w;
	struct qwen_job job;
	struct qwen_err err;

	qscore_next_window(r, x, &at);
	w = cli_check_alloc(malloc(sizeof *w));
	*w = (struct window){ x, at.begin };
	job = (struct qwen_job){
		.tokens = x->q.text.id + at.begin, .n = at.end - at.begin,
		.from = at.first - at.begin, .n_top = r->n_top,
		.score = on_score, .end = on_end, .arg = w,
	};
	if (qwen_work_add(r->work.work, &job, &err) == 0) {
		x->left++;
		return;
	}
	free(w);
	if (err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &err);
	tool_refuse(&x->q.refusal, "invalid_request", &err);
}

static void
add_text(struct qscore_run *r, struct qscore_text *x)
{
	size_t n = x->q.text.n > x->q.from ? x->q.text.n - x->q.from : 0;

	x->run = r;
	x->at = x->q.from;
	x->bytes = sizeof *x + x->q.text.n * sizeof *x->q.text.id +
	    n * (sizeof *x->logprob + sizeof *x->rank +
	    r->n_top * sizeof *x->top);
	x->logprob = cli_check_alloc(calloc(n + 1, sizeof *x->logprob));
	x->rank = cli_check_alloc(calloc(n + 1, sizeof *x->rank));
	/* no overflow: memory has n tokens */
	x->top = cli_check_alloc(calloc(n * r->n_top + 1, sizeof *x->top));
	*(r->tail != NULL ? &r->tail->next : &r->head) = x;
	r->tail = x;
	r->n++;
	r->bytes += x->bytes;
}

/* Return 1 if the scheduler should get another window and one can be had. */
static int
wants_more(const struct qscore_run *r)
{
	if (r->tail != NULL && !is_added(r->tail))
		return qwen_work_n_waiting(r->work.work) < r->work.n_ahead;
	if (r->at_end || r->n >= r->work.n_ahead || r->bytes >= AHEAD_BYTES)
		return 0;
	return qwen_work_n_jobs(r->work.work) == 0 ||
	    r->source.waiting(r->source.arg);
}

static void
read_texts(struct qscore_run *r)
{
	struct qscore_text *x;

	while (wants_more(r)) {
		if (r->tail != NULL && !is_added(r->tail))
			add_next_window(r, r->tail);
		else if (!r->source.next(r->source.arg, &x))
			r->at_end = 1;
		else if (x != NULL)
			add_text(r, x);
		/* no step follows that would write the results */
		if (qwen_work_n_jobs(r->work.work) == 0)
			write_ready(r);
	}
}

void
qscore_all(struct qscore_run *r)
{
	int more;

	do {
		read_texts(r);
		more = tool_work_step(&r->work);
		write_ready(r);
	} while (more || !r->at_end);
}
