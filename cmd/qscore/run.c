/* SPDX-License-Identifier: ISC */
/* run.c - score the windows of texts as jobs of the scheduler. */
#include <stdlib.h>
#include <string.h>

#include "qscore.h"

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
put_text(void *arg, struct tool_input *item)
{
	struct qscore_text *x = (struct qscore_text *)(void *)item;
	struct qscore_run *r = arg;
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
	qwen_score_request_fini(&x->q);
	tool_spans_fini(&x->spans);
	free(x->logprob);
	free(x->rank);
	free(x->top);
	free(x);
}

static void
on_score(void *arg, const struct qwen_score *s)
{
	struct window *w = arg;
	struct qscore_text *x = w->x;
	struct qscore_run *r = x->run;
	size_t i = w->begin + s->at - x->q.from;

	x->logprob[i] = s->logprob;
	x->rank[i] = (uint32_t)s->rank;
	if (s->n_top > 0)
		memcpy(x->top + i * r->n_top, s->top,
		    s->n_top * sizeof *x->top);
	cli_progress_also(++r->n_tokens, "tok");
	cli_progress(r->queue.n_done);
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	struct window *w = arg;

	if (why == QWEN_JOB_FAILED)
		tool_refuse(&w->x->q.refusal, "failed", err);
	w->x->item.left--;
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

/* Return 1 if a window of the text is left to be added as a job. */
static int
has_more(const struct qscore_text *x)
{
	return x->q.refusal.err.code == 0 && x->at < x->q.text.n;
}

static void
add_window(void *arg, struct tool_input *item)
{
	struct qscore_text *x = (struct qscore_text *)(void *)item;
	struct qscore_run *r = arg;
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
		.spans = x->spans.v, .n_spans = x->spans.n,
	};
	if (qwen_work_add(r->work.work, &job, &err) == 0)
		item->left++;
	else {
		free(w);
		if (err.code == QWEN_ENOMEM)
			cli_die_err(NULL, &err);
		tool_refuse(&x->q.refusal, "invalid_request", &err);
	}
	item->has_more = has_more(x);
}

void
qscore_begin(struct qscore_run *r, struct qscore_text *x)
{
	size_t n = x->q.text.n > x->q.from ? x->q.text.n - x->q.from : 0;

	x->at = x->q.from;
	x->item.has_more = has_more(x);
	x->item.bytes = sizeof *x + x->q.text.n * sizeof *x->q.text.id +
	    n * (sizeof *x->logprob + sizeof *x->rank +
	    r->n_top * sizeof *x->top);
	x->logprob = cli_check_alloc(calloc(n + 1, sizeof *x->logprob));
	x->rank = cli_check_alloc(calloc(n + 1, sizeof *x->rank));
	/* no overflow: memory has n tokens */
	x->top = cli_check_alloc(calloc(n * r->n_top + 1, sizeof *x->top));
}

void
qscore_all(struct qscore_run *r)
{
	r->queue.more = add_window;
	r->queue.put = put_text;
	tool_queue_run(&r->queue);
}
