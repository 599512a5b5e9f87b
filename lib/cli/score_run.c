/* SPDX-License-Identifier: ISC */
/*
 * score_run.c - texts in, windows of them as jobs of the scheduler, results
 * out, in order.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/score.h"

enum { AHEAD_BYTES = 64 << 20 };

/* Tokens begin .. of a text, of which some are scored. */
struct window {
	struct cli_scored	*q;
	size_t			 begin;
};

static void
put_out(struct cli_score *r)
{
	struct cli_scored *q = r->head;
	struct cli_text t = { 0 };

	if (q->err.code != 0 && r->n_failed++ == 0) {
		r->failed_line = q->line;
		memcpy(r->failed, q->err.msg, sizeof r->failed);
	}
	cli_score_result(r, q, &r->total, &t);
	cli_results_write(&r->out, &t);
	cli_text_fini(&t);
	if ((r->head = q->next) == NULL)
		r->tail = NULL;
	r->n--;
	r->bytes -= q->bytes;
	cli_scored_free(q);
	cli_progress(++r->n_done);
}

/* All of its windows are under way, or have been. */
static int
is_added(const struct cli_scored *q)
{
	return q->err.code != 0 || q->at >= q->n;
}

static void
write_ready(struct cli_score *r)
{
	while (r->head != NULL && r->head->left == 0 && is_added(r->head))
		put_out(r);
}

static void
on_score(void *arg, const struct qwen_score *s)
{
	struct window *w = arg;
	struct cli_scored *q = w->q;
	size_t i = w->begin + s->at - q->from;

	q->logprob[i] = s->logprob;
	q->rank[i] = (uint32_t)s->rank;
	if (s->n_top > 0)
		memcpy(q->top + i * q->run->n_top, s->top,
		    s->n_top * sizeof *q->top);
	cli_progress_also(++q->run->n_scored, "tok");
	cli_progress(q->run->n_done);
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	struct window *w = arg;

	if (why == QWEN_JOB_FAILED)
		cli_scored_fail(w->q, err->code == QWEN_EFULL ?
		    "out_of_memory" : "failed", "%s", err->msg);
	w->q->left--;
	free(w);
}

/* The window from begin to end, of which the tokens from first on count. */
static void
add_window(struct cli_score *r, struct cli_scored *q, size_t begin,
    size_t first, size_t end)
{
	struct window *w = malloc(sizeof *w);
	struct qwen_job job = {
		.tokens = q->tokens + begin, .n = end - begin,
		.from = first - begin, .n_top = r->n_top, .score = on_score,
		.end = on_end, .arg = w,
	};
	struct qwen_err err;

	if (w == NULL)
		die("out of memory");
	*w = (struct window){ q, begin };
	if (qwen_work_add(r->work, &job, &err) == 0) {
		q->left++;
		return;
	}
	free(w);
	if (err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &err);
	cli_scored_fail(q, err.code == QWEN_EFULL ? "out_of_memory" :
	    "invalid_request", "%s", err.msg);
}

/* Each token once, with at least context - stride tokens before it, or all. */
static void
add_next_window(struct cli_score *r, struct cli_scored *q)
{
	size_t first = q->at, begin, end;

	end = first < r->context ? r->context : first + r->stride;
	if (end > q->n)
		end = q->n;
	begin = end > r->context ? end - r->context : 0;
	q->at = end;
	add_window(r, q, begin, first, end);
}

static void
enlist(struct cli_score *r, struct cli_scored *q)
{
	size_t n = q->n > q->from ? q->n - q->from : 0;

	q->run = r;
	q->at = q->from;
	q->bytes = sizeof *q + q->n * sizeof *q->tokens +
	    n * (sizeof *q->logprob + sizeof *q->rank +
	    r->n_top * sizeof *q->top);
	q->logprob = calloc(n + 1, sizeof *q->logprob);
	q->rank = calloc(n + 1, sizeof *q->rank);
	/* a text of that many tokens would not be here */
	q->top = calloc(n * r->n_top + 1, sizeof *q->top);
	if (q->logprob == NULL || q->rank == NULL || q->top == NULL)
		die("out of memory");
	*(r->tail != NULL ? &r->tail->next : &r->head) = q;
	r->tail = q;
	r->n++;
	r->bytes += q->bytes;
}

/* Whether there should be more to do for the scheduler, and there is. */
static int
wants_more(const struct cli_score *r)
{
	if (r->tail != NULL && !is_added(r->tail))
		return qwen_work_n_waiting(r->work) < r->n_ahead;
	if (r->read || r->n >= r->n_ahead || r->bytes >= AHEAD_BYTES)
		return 0;
	return qwen_work_n_jobs(r->work) == 0 ||
	    r->source.waiting(r->source.arg);
}

static void
feed(struct cli_score *r)
{
	struct cli_scored *q;

	while (wants_more(r)) {
		if (r->tail != NULL && !is_added(r->tail))
			add_next_window(r, r->tail);
		else if (!r->source.next(r->source.arg, &q))
			r->read = 1;
		else if (q != NULL)
			enlist(r, q);
		/* nothing to wait for */
		if (qwen_work_n_jobs(r->work) == 0)
			write_ready(r);
	}
}

void
cli_score_run(struct cli_score *r)
{
	struct qwen_err err;
	int more;

	do {
		feed(r);
		if ((more = qwen_work_step(r->work, &err)) < 0)
			cli_die_err(NULL, &err);
		write_ready(r);
	} while (more || !r->read);
}
