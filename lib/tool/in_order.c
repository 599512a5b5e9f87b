/* SPDX-License-Identifier: ISC */
/*
 * in_order.c - reads texts, runs one or more jobs for each, and writes the
 * results in input order.
 *
 * Reads only enough input to keep the scheduler busy, so that memory does not
 * grow with the input.  A pass mixes tokens of all jobs: sorting by length
 * gains nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "text/request/request.h"
#include "tool/tool.h"

enum { AHEAD_BYTES = 64 << 20 };

static void
on_hidden(void *arg, size_t at, const float *x)
{
	struct tool_text_sum *p = arg;
	size_t n = qwen_model_n_embd(p->item->queue->work->model);

	(void)at;
	if (p->sum == NULL)
		p->sum = cli_check_alloc(calloc(n, sizeof *p->sum));
	qwen_embedding_add(p->sum, x, n);
	p->n++;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	struct tool_text_sum *p = arg;

	struct tool_queue *o = p->item->queue;

	if (why == QWEN_JOB_FAILED)
		tool_refuse(p->item->no, "failed", err);
	else
		o->end(o->arg, p);
	free(p->sum);
	p->sum = NULL;
	o->n_tokens += p->n_tokens;
	p->item->left--;
	cli_progress_also(o->n_tokens, "tok");
	cli_progress(o->n_done);
}

void
tool_text_sum_add_job(struct tool_text_sum *p, struct tool_input *x,
    const struct qwen_embedding *how, const struct qwen_ids *text)
{
	struct qwen_job job = { .tokens = text->id, .n = text->n,
	    .hidden = on_hidden, .end = on_end, .arg = p };
	struct qwen_err err;

	*p = (struct tool_text_sum){ .item = x };
	job.from = qwen_embedding_from(how, &job.n);
	p->n_tokens = job.n;
	if (qwen_work_add(x->queue->work->work, &job, &err) == 0) {
		x->left++;
		x->bytes += job.n * sizeof *job.tokens +
		    qwen_model_n_embd(x->queue->work->model) * sizeof *p->sum;
		return;
	}
	if (err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &err);
	tool_refuse(x->no, "invalid_request", &err);
}

static void
write_ready(struct tool_queue *o)
{
	struct tool_input *x;

	while ((x = o->head) != NULL && x->left == 0 && !x->has_more) {
		if ((o->head = x->next) == NULL)
			o->tail = NULL;
		o->n--;
		o->bytes -= x->bytes;
		tool_note_failed(o->work, x->line, x->no);
		o->put(o->arg, x);
		cli_progress(++o->n_done);
	}
}

static int
wants_more(const struct tool_queue *o)
{
	if (o->tail != NULL && o->tail->has_more)
		return qwen_work_n_waiting(o->work->work) < o->work->n_ahead;
	if (o->read || o->n >= o->work->n_ahead || o->bytes >= AHEAD_BYTES)
		return 0;
	return qwen_work_n_jobs(o->work->work) == 0 || o->waiting(o->arg);
}

static void
feed(struct tool_queue *o)
{
	struct tool_input *x;

	while (wants_more(o)) {
		x = NULL;
		if (o->tail != NULL && o->tail->has_more)
			o->more(o->arg, o->tail);
		else if (!o->next(o->arg, &x))
			o->read = 1;
		if (x != NULL) {
			*(o->tail != NULL ? &o->tail->next : &o->head) = x;
			o->tail = x;
			o->n++;
			o->bytes += x->bytes;
		}
		/* jobs of the item may have failed to start: write it now */
		if (qwen_work_n_jobs(o->work->work) == 0)
			write_ready(o);
	}
}

void
tool_queue_run(struct tool_queue *o)
{
	int more;

	do {
		feed(o);
		more = tool_work_step(o->work);
		write_ready(o);
	} while (more || !o->read);
}

void
tool_report_results(const struct tool_queue *o, const char *what, double start)
{
	struct qwen_work_stats st;
	double s = cli_now() - start;

	if (!cli_verbose)
		return;
	qwen_work_stats(o->work->work, &st);
	cli_note("%s in %.3f s, %.1f per second; %llu of them failed",
	    cli_count(o->n_done, what), s, (double)o->n_done / s,
	    (unsigned long long)o->work->n_failed);
	cli_note("%s in them, %.1f tok/s; %llu read, %llu shared, %llu from "
	    "the store; passes: %llu in %.3f s; %s a sequence was preempted",
	    cli_count(o->n_tokens, "token"), (double)o->n_tokens / s,
	    (unsigned long long)st.read, (unsigned long long)st.shared,
	    (unsigned long long)st.stored, (unsigned long long)st.n_passes,
	    st.pass_s, cli_count(st.preempted, "time"));
	tool_report_stats(o->work->model);
}
