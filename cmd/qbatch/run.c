/* SPDX-License-Identifier: ISC */
/*
 * run.c - read lines, run jobs of the scheduler, write results.
 *
 * Only as many lines are read as keep the scheduler busy.  With results in
 * order, reading also stops n_ahead lines after the first unanswered one, so
 * memory does not grow with the input.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "qbatch.h"

enum { AHEAD_BYTES = 64 << 20 };

/* ------------------------------------------------------- items in progress */

static void
queue_add(struct qbatch_queue *f, struct qbatch_item *item)
{
	item->prev = f->tail;
	*(f->tail != NULL ? &f->tail->next : &f->head) = item;
	f->tail = item;
	f->n++;
	f->bytes += item->bytes;
}

static void
queue_remove(struct qbatch_queue *f, struct qbatch_item *item)
{
	*(item->prev != NULL ? &item->prev->next : &f->head) = item->next;
	*(item->next != NULL ? &item->next->prev : &f->tail) = item->prev;
	f->n--;
	f->bytes -= item->bytes;
}

static void
write_result(struct qbatch_run *r, struct qbatch_item *item)
{
	qbatch_results_write(&r->out, &item->result);
	queue_remove(&r->queue, item);
	qwen_text_fini(&item->result);
	free(item);
	cli_progress(++r->n_done);
}

/* Make the item's result line, which records its run. */
static void
make_result(const struct qbatch_run *r, struct qbatch_item *item)
{
	char hex[QBATCH_HASH];
	struct qwen_result_run run = {
		.model = r->self.model, .hash = r->self.hash,
		.options = item->request->max_given ? r->self.options :
		    r->self.limited,
		.request = item->hash == 0 ? NULL : qbatch_hex(item->hash, hex),
	};

	qwen_request_result(item->request, &run, &item->result);
}

/*
 * Write the result of a finished item, or keep it until earlier ones are
 * written.
 */
static void
finish_item(struct qbatch_run *r, struct qbatch_item *item)
{
	struct qwen_request *q = item->request;
	size_t before = item->bytes;

	tool_note_failed(&r->work, q->number, &q->refusal);
	qbatch_report_add(&r->report, item);
	make_result(r, item);
	qwen_request_free(q);
	item->request = NULL;
	item->bytes = sizeof *item + item->result.n;
	r->queue.bytes += item->bytes - before;
	if (r->unordered) {
		write_result(r, item);
		return;
	}
	while (r->queue.head != NULL && r->queue.head->request == NULL)
		write_result(r, r->queue.head);
}

/* -------------------------------------------------------------------- jobs */

/* Fail the request only; out of memory ends the program. */
static int
fail_request(struct qwen_request *q, const char *code,
    const struct qwen_err *err)
{
	if (err->code == QWEN_ENOMEM)
		cli_die_err(NULL, err);
	return tool_refuse(&q->refusal, code, err);
}

static int
on_token(void *arg, const struct qwen_choice *c)
{
	struct qwen_answer *a = arg;
	struct qbatch_item *item = a->request->arg;
	struct qbatch_run *r = item->run;
	struct qwen_likely token = { c->id, c->logprob };
	struct qwen_likely top[QWEN_LOGPROBS_MAX];
	struct qwen_err err;
	size_t i;
	int rc;

	item->last = cli_now();
	if (item->first <= 0)
		item->first = item->last;
	cli_progress_also(++r->n_tokens, "tok");
	cli_progress(r->n_done);
	for (i = 0; i < c->n_top && i < QWEN_LOGPROBS_MAX; i++)
		top[i] = (struct qwen_likely){ c->top[i].id,
		    c->top[i].logprob };
	rc = qwen_answer_put(a, &token, top, i, &err);
	return rc < 0 ? -fail_request(a->request, "failed", &err) : rc;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *why_failed)
{
	struct qwen_answer *a = arg;
	struct qbatch_item *item = a->request->arg;
	struct qwen_err err;

	if (why == QWEN_JOB_FAILED)
		tool_refuse(&a->request->refusal, "failed", why_failed);
	a->repeats = why == QWEN_JOB_REPEATS;
	if (qwen_answer_end(a, why == QWEN_JOB_LENGTH || a->repeats ?
	    "length" : "stop", &err) < 0)
		fail_request(a->request, "failed", &err);
	if (--item->n_left == 0)
		finish_item(item->run, item);
}

static int
add_job(struct qbatch_run *r, struct qbatch_item *item, size_t i)
{
	struct qwen_request *q = item->request;
	struct qwen_answer *a = &q->answer[i];
	struct qwen_job job = {
		.tokens = a->prompt->id, .n = a->prompt->n, .max = q->max,
		.sampler = tool_service_nth(item->sampler, i % q->n),
		.ending = q->end_id != NULL ? q->end_id : r->ending,
		.n_ending = q->end_id != NULL ? q->n_end_ids : r->n_ending,
		.logprobs = q->logprobs,
		.n_top = q->n_top, .token = on_token, .end = on_end,
		.arg = a,
	};
	struct qwen_err err;

	if (qwen_work_add(r->work.work, &job, &err) == 0)
		return 0;
	qwen_sampler_free(job.sampler);
	return fail_request(q, "invalid_request", &err);
}

/* Free what the jobs have copied. */
static void
free_copied(struct qbatch_item *item)
{
	struct qwen_request *q = item->request;
	size_t i;

	for (i = 0; i < q->n_prompts; i++) {
		free(q->prompt[i].id);
		q->prompt[i].id = NULL;
	}
	qwen_sampler_free(item->sampler);
	item->sampler = NULL;
}

static void
add_item(struct qbatch_run *r, struct qbatch_item *item)
{
	struct qwen_request *q = item->request;
	size_t i;

	queue_add(&r->queue, item);
	for (i = 0; i < q->n_answers && q->refusal.err.code == 0; i++) {
		if (add_job(r, item, i) == 0)
			item->n_left++;
	}
	free_copied(item);
	if (item->n_left == 0)
		finish_item(r, item);
}

/* ----------------------------------------------------------------- reading */

/* Remember the id.  Return 0, or the line that has it already. */
static uint64_t
note_id(struct qbatch_run *r, const char *id)
{
	struct qbatch_map_entry *e;
	int made;

	if (id == NULL)
		return 0;
	e = qbatch_map_put(&r->ids, qbatch_hash_text(id), r->in.line, &made);
	return made ? 0 : e->value;
}

/*
 * Lines that are not JSON objects are answered in the form of the first object.
 */
static void
note_kind(struct qbatch_run *r, enum qwen_line_kind kind)
{
	if (r->kind == QWEN_LINE_BAD)
		r->kind = kind;
	r->with.service.plain_lines = r->kind != QWEN_LINE_ENVELOPE;
}

/*
 * Skip a line that has a result.  Lines of a pipe are compared here, since they
 * could not be read in advance.
 */
static void
check_done(struct qbatch_run *r, const struct qbatch_index_entry *done,
    const struct tool_line *line)
{
	if (r->is_pipe && !r->mixed && !qbatch_index_answers(done, line))
		die("%s: line %llu of the input changed since it was "
		    "answered; --mixed keeps its result", r->out.name,
		    (unsigned long long)r->in.line);
	r->n_skipped++;
}

int
qbatch_is_skipped(struct qbatch_run *r, const struct tool_line *line)
{
	const struct qbatch_index_entry *done;
	int ours = (r->in.line - 1) % r->n_shards == r->shard;
	enum qwen_line_kind kind;
	char *id;

	done = ours ? qbatch_index_find(&r->out.done, r->in.line) : NULL;
	if (ours && done == NULL)
		return 0;
	cli_must(NULL, qwen_request_line_id(line->s, line->n, &id, &kind,
	    &cli_err));
	note_kind(r, kind);
	if (done != NULL)
		check_done(r, done, line);
	if (kind == QWEN_LINE_ENVELOPE)
		note_id(r, id);
	free(id);
	return 1;
}

void
qbatch_check_id(struct qbatch_run *r, struct qwen_request *q)
{
	uint64_t other;

	if (q->form != QWEN_FORM_PLAIN && (other = note_id(r, q->id)) != 0)
		qwen_refuse(&q->refusal, "duplicate_id", "custom_id",
		    "custom_id: line %llu has the same",
		    (unsigned long long)other);
}

static double
arrival(struct qbatch_run *r)
{
	if (r->arrivals <= 0)
		return r->is_pipe ? cli_now() : r->report.start;
	return r->next_arrival;
}

static struct qbatch_item *
make_item(struct qbatch_run *r, const struct tool_line *line)
{
	struct qbatch_item *item = cli_check_alloc(calloc(1, sizeof *item));

	cli_must(NULL, qwen_request_parse_line(&item->request, &r->with.service,
	    line->s, line->n, &cli_err));
	item->run = r;
	item->hash = qbatch_hash_line(line);
	item->bytes = sizeof *item + line->n + item->request->n_bytes;
	item->request->arg = item;
	item->request->number = r->in.line;
	if (item->request->refusal.err.code == 0 &&
	    qwen_request_fits(item->request, r->with.service.n_ctx) == 0)
		tool_service_sampler(&r->with, item->request, &item->sampler);
	return item;
}

static void
handle_line(struct qbatch_run *r, const struct tool_line *line)
{
	struct qbatch_item *item;

	if (tool_line_is_blank(line) || qbatch_is_skipped(r, line))
		return;
	item = make_item(r, line);
	if (item->request->is_object)
		note_kind(r, item->request->form == QWEN_FORM_PLAIN ?
		    QWEN_LINE_PLAIN : QWEN_LINE_ENVELOPE);
	qbatch_check_id(r, item->request);
	item->arrived = arrival(r);
	if (r->arrivals > 0)
		r->next_arrival += tool_request_gap(&r->seed, r->arrivals);
	add_item(r, item);
}

/*
 * Return 1 if another line should be read now: there is room, and the line is
 * available or the scheduler has no other work.
 */
static int
wants_line(struct qbatch_run *r)
{
	double wait;
	struct timespec t;

	if (r->at_end || r->queue.bytes >= AHEAD_BYTES ||
	    r->queue.n >= r->work.n_ahead)
		return 0;
	if (r->arrivals > 0 && (wait = r->next_arrival - cli_now()) > 0) {
		if (qwen_work_n_jobs(r->work.work) > 0)
			return 0;
		t.tv_sec = (time_t)wait;
		t.tv_nsec = (long)((wait - floor(wait)) * 1e9);
		nanosleep(&t, NULL);
	}
	return qwen_work_n_jobs(r->work.work) == 0 || tool_lines_waiting(&r->in);
}

static void
read_lines(struct qbatch_run *r)
{
	struct tool_line line;

	while (wants_line(r)) {
		if (tool_lines_next(&r->in, &line)) {
			/* die early if the input is a binary file */
			tool_lines_check(&r->in, &line, "requests");
			handle_line(r, &line);
		} else
			r->at_end = 1;
	}
}

void
qbatch_answer_all(struct qbatch_run *r)
{
	note_kind(r, QWEN_LINE_BAD);
	r->report.start = r->next_arrival = cli_now();
	do
		read_lines(r);
	while (tool_work_step(&r->work) || !r->at_end);
	r->report.end = cli_now();
}

void
qbatch_fini(struct qbatch_run *r)
{
	tool_lines_fini(&r->in);
	qbatch_map_fini(&r->ids);
	qbatch_index_fini(&r->out.done);
	qbatch_self_close(&r->self);
	qbatch_report_fini(&r->report);
}
