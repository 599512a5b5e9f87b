/* SPDX-License-Identifier: ISC */
/* run.c - read lines, run jobs of the scheduler, write results. */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "qbatch.h"

/* ----------------------------------------------------------------- results */

static void
write_result(void *arg, struct tool_input *input)
{
	struct qbatch_item *item = (struct qbatch_item *)(void *)input;
	struct qbatch_run *r = arg;

	qbatch_results_write(&r->out, &item->result);
	qwen_text_fini(&item->result);
	free(item);
}

/* Replace the request of a finished item by its result, which has its run. */
static void
finish_item(struct qbatch_run *r, struct qbatch_item *item)
{
	struct qwen_request *q = item->request;
	char hex[QBATCH_HASH];
	int seen = item->pictures.n > 0;
	struct qwen_result_run run = {
		.model = r->self.model, .hash = r->self.hash,
		.options = q->max_given ? r->self.options[seen] :
		    r->self.limited[seen],
		.request = item->hash == 0 ? NULL : qbatch_hex(item->hash, hex),
	};

	tool_note_failed(&r->work, q->number, &q->refusal);
	qbatch_report_add(&r->report, item);
	qwen_request_result(q, &run, &item->result);
	qwen_request_free(q);
	item->request = NULL;
	qbatch_images_fini(&r->images, &item->pictures);
	item->input.bytes = sizeof *item + item->result.n;
}

/* -------------------------------------------------------------------- jobs */

/* Fail the request only; out of memory ends the program. */
static int
fail_request(struct qwen_request *q, const char *code,
    const struct qwen_err *err)
{
	cli_die_oom(err);
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
	cli_progress(r->queue.n_done);
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
	size_t before = item->input.bytes;
	struct qwen_err err;

	if (why == QWEN_JOB_FAILED)
		tool_refuse(&a->request->refusal, "failed", why_failed);
	a->repeats = why == QWEN_JOB_REPEATS;
	if (qwen_answer_end(a, why == QWEN_JOB_LENGTH || a->repeats ?
	    "length" : "stop", &err) < 0)
		fail_request(a->request, "failed", &err);
	if (--item->input.left > 0)
		return;
	finish_item(item->run, item);
	item->run->queue.bytes += item->input.bytes - before;
}

static void
add_job(struct qbatch_run *r, struct qbatch_item *item, size_t i)
{
	size_t n_eog = r->with.ignore_eos ? 0 : r->header.n_eog;
	struct qwen_request *q = item->request;
	struct qwen_answer *a = &q->answer[i];
	struct qwen_job job = {
		.tokens = a->prompt->id, .n = a->prompt->n, .max = q->max,
		.sampler = tool_service_nth(item->sampler, i % q->n),
		.ending = q->end_id != NULL ? q->end_id : r->header.eog,
		.n_ending = q->end_id != NULL ? q->n_end_ids : n_eog,
		.logprobs = q->logprobs,
		.n_top = q->n_top, .token = on_token, .end = on_end,
		.arg = a, .spans = item->pictures.spans,
		.n_spans = item->pictures.n,
	};
	struct qwen_err err;

	if (qwen_work_add(r->work.work, &job, &err) == 0) {
		item->input.left++;
		return;
	}
	qwen_sampler_free(job.sampler);
	fail_request(q, "invalid_request", &err);
}

/* ----------------------------------------------------------------- reading */

/* Remember the id.  Return 0, or the line that has it already. */
static uint64_t
note_id(struct qbatch_run *r, const char *id)
{
	return id == NULL ? 0 : qbatch_map_put(&r->ids, qbatch_hash_text(id),
	    r->in.line);
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
	/* lines of a pipe could not be compared in advance */
	if (done != NULL && r->is_pipe && !r->mixed &&
	    !qbatch_index_answers(done, line))
		die("%s: line %llu of the input changed since it was "
		    "answered; --mixed keeps its result", r->out.name,
		    cli_llu(r->in.line));
	r->n_skipped += done != NULL;
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
		    "custom_id: line %llu has the same", cli_llu(other));
}

/*
 * Rows of images count a sixteenth, so that about a GiB of them is read ahead:
 * fewer than TOOL_SEQUENCES requests at a time would be slow.
 */
enum { ROWS_SHARE = 16 };

/*
 * Return the memory of an item, roughly: what is left of its line, once the
 * images' base64 is gone, and rows.
 */
static size_t
bytes_of(const struct qbatch_item *item, const struct tool_line *line,
    size_t image_bytes)
{
	size_t n = line->n + item->request->n_bytes;
	size_t gone = image_bytes + image_bytes / 3 * 4;

	return sizeof *item + n - (gone < n ? gone : n) +
	    item->pictures.bytes / ROWS_SHARE;
}

static struct qbatch_item *
make_item(struct qbatch_run *r, const struct tool_line *line)
{
	struct qbatch_item *item = cli_check_alloc(calloc(1, sizeof *item));
	struct qwen_request *q;
	size_t i, image_bytes = 0;

	cli_must(NULL, qwen_request_parse_line(&item->request, &r->with.service,
	    line->s, line->n, &cli_err));
	q = item->request;
	item->run = r;
	item->hash = qbatch_hash_line(line);
	q->arg = item;
	q->number = r->in.line;
	for (i = 0; i < q->images.n; i++)
		image_bytes += q->images.v[i].n;
	if (q->refusal.err.code == 0 &&
	    qbatch_images_read(&r->images, q, &item->pictures) == 0 &&
	    qwen_request_fits(q, r->with.service.n_ctx) == 0)
		tool_service_sampler(&r->with, q, &item->sampler);
	item->input.bytes = bytes_of(item, line, image_bytes);
	return item;
}

/* Make an item of the line, and add its jobs. */
static struct qbatch_item *
add_item(struct qbatch_run *r, const struct tool_line *line)
{
	struct qbatch_item *item = make_item(r, line);
	struct qwen_request *q = item->request;
	size_t i;

	if (q->is_object)
		note_kind(r, q->form == QWEN_FORM_PLAIN ? QWEN_LINE_PLAIN :
		    QWEN_LINE_ENVELOPE);
	qbatch_check_id(r, q);
	item->arrived = r->arrivals > 0 ? r->next_arrival : r->is_pipe ?
	    cli_now() : r->report.start;
	if (r->arrivals > 0)
		r->next_arrival += tool_request_gap(&r->seed, r->arrivals);
	for (i = 0; i < q->n_answers && q->refusal.err.code == 0; i++)
		add_job(r, item, i);
	/* the jobs have copied these */
	for (i = 0; i < q->n_prompts; i++) {
		free(q->prompt[i].id);
		q->prompt[i].id = NULL;
	}
	qwen_sampler_free(item->sampler);
	item->sampler = NULL;
	if (item->input.left == 0)
		finish_item(r, item);
	return item;
}

/* Return the seconds until the next line may be read. */
static double
wait_s(const struct qbatch_run *r)
{
	return r->arrivals > 0 ? r->next_arrival - cli_now() : 0;
}

static int
waiting(void *arg)
{
	const struct qbatch_run *r = arg;

	return wait_s(r) <= 0 && tool_lines_waiting(&r->in);
}

static int
next(void *arg, struct tool_input **out)
{
	struct qbatch_run *r = arg;
	double wait = wait_s(r);
	struct tool_line line;
	struct timespec t;

	if (wait > 0) {
		t.tv_sec = (time_t)wait;
		t.tv_nsec = (long)((wait - floor(wait)) * 1e9);
		nanosleep(&t, NULL);
	}
	if (!tool_lines_next(&r->in, &line))
		return 0;
	/* die early if the input is a binary file */
	tool_lines_check(&r->in, &line, "requests");
	if (!tool_line_is_blank(&line) && !qbatch_is_skipped(r, &line))
		*out = &add_item(r, &line)->input;
	return 1;
}

void
qbatch_answer_all(struct qbatch_run *r)
{
	struct tool_queue *q = &r->queue;

	note_kind(r, QWEN_LINE_BAD);
	q->work = &r->work;
	q->next = next;
	q->waiting = waiting;
	q->put = write_result;
	q->arg = r;
	r->report.start = r->next_arrival = cli_now();
	tool_queue_run(q);
	r->report.end = cli_now();
}
