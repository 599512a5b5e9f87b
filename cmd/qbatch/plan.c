/* SPDX-License-Identifier: ISC */
/*
 * plan.c - qbatch --plan: count the tokens to read and to generate, and
 * estimate the time from the speed of a few passes.
 */
#include <stdlib.h>
#include <xxhash.h>

#include "qbatch.h"

enum {
	BLOCK = 16,		/* tokens per block of the KV cache, which
				   prompts share as a whole */
	READ = 512,		/* most prompt tokens for the measurement */
	WRITTEN = 8,		/* tokens generated per sequence for it */
	SEED = 16,		/* prompt tokens of these sequences */
};

struct plan {
	uint64_t		 n, n_failed;
	uint64_t		 n_answers;
	uint64_t		 prompt;	/* prompt tokens */
	uint64_t		 read;		/* the same, shared prefixes
						   counted once */
	uint64_t		 write;		/* tokens to generate, at
						   most */
	void			*begun;		/* map of hashes of prefixes */
	struct qwen_ids		 sample;	/* the first READ prompt
						   tokens */
	double			 read_s, write_s;	/* seconds per token */
	size_t			 n_sequences;	/* in the measurement */
};

/* ----------------------------------------------------------------- requests */

/*
 * Return the number of prompt tokens after the longest prefix shared with an
 * earlier prompt.
 */
static uint64_t
count_new(struct plan *p, const struct qwen_ids *ids)
{
	uint64_t part[2] = { 0, 0 };
	size_t at, shared = 0;
	int knows = 1;

	for (at = 0; at + BLOCK <= ids->n; at += BLOCK) {
		part[1] = XXH3_64bits(&ids->id[at], BLOCK * sizeof *ids->id);
		part[0] = XXH3_64bits(part, sizeof part);
		knows &= qbatch_map_put(&p->begun, part[0], 1) != 0;
		if (knows)
			shared = at + BLOCK;
	}
	/* the last token is always read, for its logits */
	return ids->n - (shared < ids->n ? shared : ids->n - 1);
}

/* Add tokens to the sample; rows of images take the time of tokens. */
static void
sample(struct plan *p, const struct qwen_ids *ids)
{
	size_t i;

	for (i = 0; i < ids->n && p->sample.n < READ; i++) {
		if (ids->id[i] >= 0)
			p->sample.id[p->sample.n++] = ids->id[i];
	}
}

static void
plan_request(struct plan *p, const struct qwen_request *q, size_t n_ctx)
{
	size_t i, room;

	p->n++;
	if (q->refusal.err.code != 0) {
		p->n_failed++;
		return;
	}
	for (i = 0; i < q->n_prompts; i++) {
		room = n_ctx - q->prompt[i].n;
		p->prompt += q->prompt[i].n;
		p->read += count_new(p, &q->prompt[i]);
		p->write += q->n * (uint64_t)(q->max < room ? q->max : room);
		sample(p, &q->prompt[i]);
	}
	p->n_answers += q->n_answers;
}

static void
read_requests(struct plan *p, struct qbatch_run *b)
{
	struct tool_line line;
	struct qbatch_pictures pictures;
	struct qwen_request *q;
	size_t n_ctx = b->with.service.n_ctx;

	while (tool_lines_next(&b->in, &line)) {
		tool_lines_check(&b->in, &line, "requests");
		if (tool_line_is_blank(&line) || qbatch_is_skipped(b, &line))
			continue;
		cli_must(NULL, qwen_request_parse_line(&q, &b->with.service,
		    line.s, line.n, &cli_err));
		pictures = (struct qbatch_pictures){ 0 };
		if (q->refusal.err.code == 0 &&
		    qbatch_images_read(&b->images, q, &pictures) == 0)
			qwen_request_fits(q, n_ctx);
		qbatch_check_id(b, q);
		plan_request(p, q, n_ctx);
		qbatch_images_fini(&b->images, &pictures);
		qwen_request_free(q);
		cli_progress(p->n);
	}
}

/* ------------------------------------------------------------- measurements */

static int
on_token(void *arg, const struct qwen_choice *c)
{
	(void)arg;
	(void)c;
	return 0;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *err)
{
	(void)arg;
	(void)why;
	if (err != NULL)
		cli_die_err(NULL, err);
}

static void
add_job(struct tool_work *w, const int32_t *ids, size_t n, size_t max)
{
	struct qwen_job job = { .tokens = ids, .n = n, .max = max,
	    .token = on_token, .end = on_end };

	cli_must(NULL, qwen_work_add(w->work, &job, &cli_err));
}

/* Measure the seconds per prompt token, after a pass that loads the weights. */
static void
measure_reading(struct plan *p, struct tool_work *w)
{
	double start;

	add_job(w, p->sample.id, 1, 1);
	while (tool_work_step(w))
		;
	start = cli_now();
	add_job(w, p->sample.id, p->sample.n, 1);
	while (tool_work_step(w))
		;
	p->read_s = (cli_now() - start) / (double)p->sample.n;
}

/*
 * Measure the seconds per generated token, with the run's number of sequences.
 */
static void
measure_writing(struct plan *p, struct tool_work *w)
{
	size_t n = p->sample.n < SEED ? p->sample.n : SEED, i;
	struct qwen_work_stats before, after;
	double start, s = 0;
	uint64_t chosen = 0;
	int more = 1;

	p->n_sequences = p->n_answers < w->n_sequences ?
	    (size_t)p->n_answers : w->n_sequences;
	for (i = 0; i < p->n_sequences; i++)
		add_job(w, p->sample.id + i * (p->sample.n - n) /
		    p->n_sequences, n, WRITTEN + 1);
	while (more) {
		qwen_work_stats(w->work, &before);
		start = cli_now();
		more = tool_work_step(w);
		qwen_work_stats(w->work, &after);
		if (after.read > before.read || after.chosen == before.chosen)
			continue;
		s += cli_now() - start;
		chosen += after.chosen - before.chosen;
	}
	p->write_s = chosen > 0 ? s / (double)chosen : 0;
}

/* ------------------------------------------------------------------- output */

static void
print_plan(const struct plan *p)
{
	double s = (double)p->read * p->read_s + (double)p->write * p->write_s;

	printf("requests            %llu\nfailed              %llu\n"
	    "answers             %llu\nprompt_tokens       %llu\n"
	    "tokens_to_read      %llu\ntokens_to_write_max %llu\n",
	    cli_llu(p->n), cli_llu(p->n_failed), cli_llu(p->n_answers),
	    cli_llu(p->prompt), cli_llu(p->read), cli_llu(p->write));
	if (p->n_answers == 0)
		return;
	printf("read_tok_s          %.1f\n", 1 / p->read_s);
	if (p->write_s > 0)
		printf("write_tok_s         %.1f\n", 1 / p->write_s);
	printf("seconds_max         %.0f\n", s);
	cli_note("rates: measured now, with %zu prompt tokens and %zu answers of "
	    "%d tokens at a time", p->sample.n, p->n_sequences, WRITTEN);
}

void
qbatch_plan(struct qbatch_run *b)
{
	static struct plan p;

	p.sample.id = cli_check_alloc(malloc(READ * sizeof *p.sample.id));
	read_requests(&p, b);
	cli_progress_end();
	if (p.n_answers > 0) {
		/* without the store: restored tokens would not be measured */
		b->work.at.dir = NULL;
		tool_work_open(&b->work);
		measure_reading(&p, &b->work);
		measure_writing(&p, &b->work);
	}
	print_plan(&p);
}
