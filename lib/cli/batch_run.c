/* SPDX-License-Identifier: ISC */
/*
 * batch_run.c - lines in, jobs of the scheduler, lines out.
 *
 * No more is read than what keeps the scheduler busy, and with results in
 * order, no more than n_ahead lines beyond the first that is not answered: so
 * memory does not grow with the input.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/batch.h"
#include "synth/synth.h"

enum { AHEAD_BYTES = 64 << 20 };

/* ------------------------------------------------------------------ flight */

static void
enlist(struct cli_flight *f, struct cli_item *item)
{
	item->prev = f->tail;
	*(f->tail != NULL ? &f->tail->next : &f->head) = item;
	f->tail = item;
	f->n++;
	f->bytes += item->bytes;
}

static void
delist(struct cli_flight *f, struct cli_item *item)
{
	*(item->prev != NULL ? &item->prev->next : &f->head) = item->next;
	*(item->next != NULL ? &item->next->prev : &f->tail) = item->prev;
	f->n--;
	f->bytes -= item->bytes;
}

static void
put_out(struct cli_run_batch *r, struct cli_item *item)
{
	cli_results_write(&r->out, &item->result);
	delist(&r->flight, item);
	cli_item_free(item);
	cli_progress(++r->n_done);
}

/* Nothing more will come of the item. */
static void
land(struct cli_run_batch *r, struct cli_item *item)
{
	size_t before = item->bytes;

	if (item->err.code != 0 && r->n_failed++ == 0) {
		r->failed_line = item->line;
		memcpy(r->failed, item->err.msg, sizeof r->failed);
	}
	cli_report_add(&r->report, item);
	cli_item_result(item, &r->b);
	item->bytes = sizeof *item + item->result.n;
	r->flight.bytes += item->bytes - before;
	if (r->unordered) {
		put_out(r, item);
		return;
	}
	while (r->flight.head != NULL && r->flight.head->result.n > 0)
		put_out(r, r->flight.head);
}

/* -------------------------------------------------------------------- jobs */

static int
on_token(void *arg, const struct qwen_choice *c)
{
	struct cli_answer *a = arg;
	struct cli_run_batch *r = a->item->run;

	a->item->last = cli_now();
	if (a->item->first <= 0)
		a->item->first = a->item->last;
	cli_progress_also(++r->n_tokens, "tok");
	cli_progress(r->n_done);
	return cli_answer_put(a, c, r->spell);
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	struct cli_answer *a = arg;
	struct cli_item *item = a->item;

	if (why == QWEN_JOB_FAILED)
		cli_item_fail(item, err->code == QWEN_EFULL ? "out_of_memory" :
		    "failed", "%s", err->msg);
	cli_answer_end(a, why == QWEN_JOB_ENOUGH ? "cut" :
	    why == QWEN_JOB_LENGTH ? "length" : "stop");
	if (item->form == CLI_CHAT)
		cli_answer_reply(a, item->run->b.template);
	if (item->n_left == 0)
		land(item->run, item);
}

static int
add_job(struct cli_run_batch *r, struct cli_answer *a)
{
	const struct cli_item *item = a->item;
	struct qwen_job job = {
		.tokens = a->prompt, .n = a->n_prompt, .max = item->max,
		.sampler = a->sampler, .ending = r->ending,
		.n_ending = r->n_ending, .logprobs = item->logprobs,
		.n_top = item->n_top, .token = on_token, .end = on_end,
		.arg = a,
	};
	struct qwen_err err;

	if (qwen_tok_decoder_new(&a->decoder, r->b.tok, 0, &err) < 0)
		cli_die_err(NULL, &err);
	if (qwen_work_add(r->work, &job, &err) == 0) {
		a->sampler = NULL;
		return 0;
	}
	if (err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &err);
	cli_item_fail(a->item, err.code == QWEN_EFULL ? "out_of_memory" :
	    "invalid_request", "%s", err.msg);
	return -1;
}

/* The scheduler has a copy. */
static void
drop_prompts(struct cli_item *item)
{
	size_t i;

	for (i = 0; i < item->n_prompts; i++) {
		free(item->prompt[i]);
		item->prompt[i] = NULL;
	}
}

static void
add_item(struct cli_run_batch *r, struct cli_item *item)
{
	size_t i;

	enlist(&r->flight, item);
	item->run = r;
	if (item->err.code != 0)
		item->n_left = 0;
	for (i = 0; i < item->n_answers && item->err.code == 0; i++) {
		if (add_job(r, &item->answer[i]) < 0)
			item->n_left = i;
	}
	drop_prompts(item);
	if (item->n_left == 0)
		land(r, item);
}

/* ----------------------------------------------------------------- reading */

/* Note the id: 0, or the line that had it before. */
static uint64_t
note_id(struct cli_run_batch *r, const char *id)
{
	struct cli_seen_entry *e;
	int made;

	if (id == NULL)
		return 0;
	e = cli_seen_put(&r->ids, cli_id_hash(id), r->in.line, &made);
	return made ? 0 : e->value;
}

/* A result of this line is there: of the same request? */
static void
check_done(struct cli_run_batch *r, const struct cli_seen_entry *done,
    const char *id)
{
	if (done->value != cli_id_hash(id))
		die("%s: the result for line %llu bears another id: it is of "
		    "another input", r->out.name,
		    (unsigned long long)r->in.line);
	r->n_skipped++;
}

/* Whether the line is not to be answered; its id counts all the same. */
static int
is_passed(struct cli_run_batch *r, const struct cli_line *line)
{
	const struct cli_seen_entry *done;
	int ours = (r->in.line - 1) % r->n_shards == r->shard, unique;
	char *id;

	done = ours ? cli_seen_find(&r->out.done, r->in.line) : NULL;
	if (ours && done == NULL)
		return 0;
	id = cli_line_id(line, &unique);
	if (done != NULL)
		check_done(r, done, id);
	if (unique)
		note_id(r, id);
	free(id);
	return 1;
}

static double
arrival(struct cli_run_batch *r)
{
	if (r->arrivals <= 0)
		return r->waits ? cli_now() : r->report.start;
	return r->next;
}

static void
take_line(struct cli_run_batch *r, const struct cli_line *line)
{
	struct cli_item *item;
	uint64_t twin;

	if (cli_line_is_blank(line) || is_passed(r, line))
		return;
	item = cli_item_parse(&r->b, line, r->in.line);
	if (item->form != CLI_PLAIN &&
	    (twin = note_id(r, item->id)) != 0)
		cli_item_fail(item, "duplicate_id",
		    "custom_id: line %llu has the same",
		    (unsigned long long)twin);
	item->arrived = arrival(r);
	/* times between events of a Poisson process */
	if (r->arrivals > 0)
		r->next -= log1p(-qwen_gguf_random_uniform(&r->seed)) /
		    r->arrivals;
	add_item(r, item);
}

/* Whether another line is welcome, and there, or worth waiting for. */
static int
wants_line(struct cli_run_batch *r)
{
	double wait;
	struct timespec t;

	if (r->read || r->flight.bytes >= AHEAD_BYTES ||
	    r->flight.n >= r->n_ahead)
		return 0;
	if (r->arrivals > 0 && (wait = r->next - cli_now()) > 0) {
		if (qwen_work_n_jobs(r->work) > 0)
			return 0;
		t.tv_sec = (time_t)wait;
		t.tv_nsec = (long)((wait - floor(wait)) * 1e9);
		nanosleep(&t, NULL);
	}
	return qwen_work_n_jobs(r->work) == 0 || cli_lines_waiting(&r->in);
}

static void
feed(struct cli_run_batch *r)
{
	struct cli_line line;

	while (wants_line(r)) {
		if (cli_lines_next(&r->in, &line))
			take_line(r, &line);
		else
			r->read = 1;
	}
}

void
cli_batch_run(struct cli_run_batch *r)
{
	struct qwen_err err;
	int more;

	r->report.start = r->next = cli_now();
	do {
		feed(r);
		if ((more = qwen_work_step(r->work, &err)) < 0)
			cli_die_err(NULL, &err);
	} while (more || !r->read);
	r->report.end = cli_now();
}

void
cli_batch_fini(struct cli_run_batch *r)
{
	cli_lines_fini(&r->in);
	cli_seen_fini(&r->ids);
	cli_report_fini(&r->report);
}
