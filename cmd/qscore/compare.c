/* SPDX-License-Identifier: ISC */
/*
 * compare.c - compare the rows of two models, of a model and a stream of
 * logits, or of a model that has read the tokens of a state and that state.
 * Only n_chunk rows are in memory at a time, however long the texts are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qscore.h"

enum { ROW_BYTES = 64 << 20, CHUNK = 64 };

/* Return 1 if the descriptor is a GGUF file; does not move its offset. */
static int
is_model(int fd)
{
	char magic[4];

	return pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
	    memcmp(magic, "GGUF", sizeof magic) == 0;
}

/* Die unless a header has the vocabulary of the model. */
static void
check_vocabulary(const struct qscore_base *b, const struct qscore_run *r,
    const struct qwen_header *h)
{
	struct qwen_header own;

	tool_header_init(&own, QWEN_STREAM_TOKENS, r->work.model);
	if (h->n_vocab != own.n_vocab ||
	    memcmp(&own.vocab, &h->vocab, sizeof own.vocab) != 0)
		die("%s: its vocabulary is not that of %s: their probabilities "
		    "cannot be compared", b->name,
		    qwen_gguf_path(r->work.gguf, 0));
}

/*
 * Open the base model.  It gets no adapters: those of --lora are for the judged
 * model, which is open already.
 */
static void
open_model(struct qscore_base *b, const struct qscore_run *r)
{
	struct qwen_header other;

	tool_lora.n = 0;
	tool_share = r->work.model;
	b->model = tool_model_open(b->path, r->work.n_threads,
	    r->work.numerics);
	tool_header_init(&other, QWEN_STREAM_TOKENS, b->model);
	check_vocabulary(b, r, &other);
}

/*
 * Load the base state into the judged model's file, opened with the settings of
 * the state (KV cache types, RoPE scaling, numerics); without adapters if the
 * state was made without.
 */
static void
open_state(struct qscore_base *b, const struct qscore_run *r,
    const struct qwen_record *rec)
{
	static const struct qwen_fp none;
	const struct qwen_header *h = rec->header;
	struct qwen_header own;

	tool_header_init(&own, QWEN_STREAM_STATE, r->work.model);
	if (memcmp(&own.base, &none, sizeof none) != 0 &&
	    memcmp(&own.base, &h->model, sizeof none) == 0)
		tool_lora.n = 0;
	tool_kv[0] = (int)h->k;
	tool_kv[1] = (int)h->v;
	tool_rope = h->rope;
	tool_numerics_check(b->name, h->numerics);
	tool_share = r->work.model;
	b->model = tool_model_open(r->work.path, r->work.n_threads,
	    h->numerics);
	/*
	 * by its path, since a state from --save-every cannot be read as a
	 * stream
	 */
	cli_must(b->name, b->fd == STDIN_FILENO ?
	    qwen_state_load(&b->base, NULL, b->model, b->rows, rec, NULL,
	    &cli_err) : qwen_state_load_file(&b->base, NULL, b->model, b->path,
	    NULL, &cli_err));
	b->n_past = qwen_session_n_tokens(b->base);
	if (b->n_past == 0 || qwen_session_logits(b->base) == NULL)
		die("%s: the state has no logits at its end, which the first "
		    "token needs", b->name);
	qwen_reader_close(b->rows);
	b->rows = NULL;
}

/* Open a stream: a state or logits. */
static void
open_stream(struct qscore_base *b, const struct qscore_run *r)
{
	struct qwen_reader_opts o = {
		.kinds = QWEN_STREAM_LOGITS | QWEN_STREAM_STATE };
	struct qwen_record rec;

	cli_must(b->name, qwen_reader_open(&b->rows, b->fd, &o, &cli_err));
	if (cli_must(b->name, qwen_reader_next(b->rows, &rec, &cli_err)) == 0)
		die("%s: the file is empty", b->name);
	if (rec.header == NULL)
		die("%s: not a stream of logits or state", b->name);
	check_vocabulary(b, r, rec.header);
	if (rec.header->kind == QWEN_STREAM_STATE)
		open_state(b, r, &rec);
}

void
qscore_base_open(struct qscore_base *b, const struct qscore_run *r)
{
	if ((b->fd = cli_open(b->path, &b->name)) == -1)
		die("%s: %s", b->name, strerror(errno));
	b->n_vocab = r->how.n_vocab;
	if (is_model(b->fd))
		open_model(b, r);
	else
		open_stream(b, r);
	b->n_chunk = ROW_BYTES / (b->n_vocab * sizeof *b->row);
	if (b->n_chunk > CHUNK)
		b->n_chunk = CHUNK;
	if (b->n_chunk == 0)
		b->n_chunk = 1;
	b->row = cli_check_alloc(calloc(b->n_chunk * b->n_vocab,
	    sizeof *b->row));
}

void
qscore_base_close(struct qscore_base *b)
{
	qwen_session_free(b->base);
	qwen_session_free(b->own);
	qwen_model_close(b->model);
	qwen_reader_close(b->rows);
	if (b->fd > STDIN_FILENO)
		close(b->fd);
	free(b->row);
	free(b->sum.kl);
	free(b->sum.diff);
}

/* ------------------------------------------------------- rows of the base */

/* Read the next row: 1, or 0 at the end. */
static int
next_row(struct qscore_base *b, const struct qscore_run *r,
    struct qwen_record *rec)
{
	int got;

	while ((got = cli_must(b->name, qwen_reader_next(b->rows, rec,
	    &cli_err))) > 0) {
		if (rec->kind == QWEN_REC_HEADER)
			check_vocabulary(b, r, rec->header);
		if (rec->kind == QWEN_REC_LOGITS)
			break;
	}
	if (got > 0 && (rec->ids != NULL || rec->n != b->n_vocab))
		die("%s: its rows have only their best logits; whole rows are "
		    "needed, made without --top", b->name);
	return got;
}

/* Read the n rows after the positions from at on. */
static void
read_rows(struct qscore_base *b, const struct qscore_run *r, size_t at,
    size_t n)
{
	struct qwen_record rec;
	size_t i;
	int got;

	for (i = 0; i < n; i++) {
		got = next_row(b, r, &rec);
		/* skip the row after the last token of the previous text */
		if (got > 0 && at + i == 0 && b->last > 0 &&
		    rec.pos == b->last)
			got = next_row(b, r, &rec);
		if (got == 0)
			die("%s: ends before the row after token %zu; give "
			    "rows of all tokens, as qprefill --logits all "
			    "writes them", b->name, at + i);
		if (rec.pos != at + i)
			die("%s: has the row after token %llu where that after "
			    "token %zu is needed; are its rows of the same "
			    "texts, in the same order?", b->name,
			    (unsigned long long)rec.pos, at + i);
		memcpy(b->row + i * b->n_vocab, rec.logits,
		    b->n_vocab * sizeof *b->row);
	}
}

/* After the last text: die if more than one row is left. */
static void
check_end(struct qscore_base *b, const struct qscore_run *r)
{
	struct qwen_record rec;

	if (b->rows != NULL && next_row(b, r, &rec) && (rec.pos != b->last ||
	    next_row(b, r, &rec)))
		die("%s: has rows after the end of the texts; are they of the "
		    "same texts?", b->name);
}

static int
keep_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct qscore_base *b = arg;
	size_t first = qwen_session_n_tokens(b->own);

	(void)err;
	memcpy(b->row + (pos - first) * b->n_vocab, logits,
	    b->n_vocab * sizeof *b->row);
	return 0;
}

/* --------------------------------------------------------------- both sides */

/* Some tokens of a text that both models evaluate in one step. */
struct chunk {
	struct qscore_base	*b;
	struct qscore_run	*r;
	const struct qscore_text *x;
	size_t			 begin;		/* index of the window's start
						   in x */
	size_t			 first;		/* index of the chunk in the
						   window */
	struct qwen_text	 t;
};

/*
 * Add a line: position, id, both log-probabilities, KL divergence, whether the
 * best token is the same, text.
 */
static void
show(struct chunk *c, size_t at, const struct qwen_row_pair *p)
{
	int32_t id = c->x->q.text.id[at];
	struct qwen_str s = qscore_spell(c->r, id);

	if (c->r->json)
		qwen_text_fmt(&c->t, "{\"position\":%zu,\"id\":%ld,"
		    "\"logprob\":%.12g,\"base_logprob\":%.12g,\"kl\":%.12g,"
		    "\"same_top\":%s,\"text\":", at - c->x->q.n_front, (long)id,
		    p->logprob, p->base_logprob, p->kl,
		    p->same_best ? "true" : "false");
	else
		qwen_text_fmt(&c->t, "%zu\t%ld\t%.6f\t%.6f\t%.9g\t%d\t",
		    at - c->x->q.n_front, (long)id, p->logprob, p->base_logprob,
		    p->kl, p->same_best);
	qwen_text_json(&c->t, s.s, s.len);
	qwen_text_str(&c->t, c->r->json ? "}\n" : "\n");
}

static int
compare_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct chunk *c = arg;
	struct qscore_base *b = c->b;
	struct qwen_row_pair p;
	size_t at = c->begin + pos + 1 - b->n_past;

	(void)err;
	qwen_compare_rows(logits, b->row + (pos - c->first) * b->n_vocab,
	    b->n_vocab, c->x->q.text.id[at], &p);
	qscore_add_pair(&b->sum, &p);
	if (c->r->per_token)
		show(c, at, &p);
	cli_progress_also(++c->r->n_tokens, "tok");
	cli_progress(c->r->queue.n_done);
	return 0;
}

/* Evaluate n tokens in both models and compare the rows after them. */
static void
do_chunk(struct chunk *c, const int32_t *ids, size_t n)
{
	struct qscore_base *b = c->b;
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .batch = b->batch,
	    .arg = b, .row = keep_row };

	c->first = qwen_session_n_tokens(b->own);
	if (b->model != NULL)
		tool_eval(b->base, ids, n, &how);
	else
		read_rows(b, c->r, c->begin + c->first, n);
	how.arg = c;
	how.row = compare_row;
	tool_eval(b->own, ids, n, &how);
	qscore_write(c->r, &c->t);
}

static void
restart(const struct qscore_base *b, struct qwen_session *s)
{
	size_t at;

	if (s != NULL)
		cli_must(NULL, qwen_session_rewind(s, b->n_past, b->n_past > 0,
		    &at, &cli_err));
}

/* Compare the rows after the tokens at .. end - 1 of a window. */
static void
do_chunks(struct chunk *c, const int32_t *ids, size_t at, size_t end)
{
	size_t n, most = c->b->n_chunk;

	for (; at < end; at += n) {
		n = end - at < most ? end - at : most;
		do_chunk(c, ids + at, n);
	}
	qwen_text_fini(&c->t);
}

/* Compare on a text after a state; its first token is scored too. */
static void
do_after(struct qscore_base *b, struct qscore_run *r,
    const struct qscore_text *x)
{
	struct chunk c = { .b = b, .r = r, .x = x, .first = b->n_past - 1 };

	restart(b, b->base);
	restart(b, b->own);
	memcpy(b->row, qwen_session_logits(b->base),
	    b->n_vocab * sizeof *b->row);
	compare_row(&c, c.first, qwen_session_logits(b->own), &cli_err);
	qscore_write(r, &c.t);
	do_chunks(&c, x->q.text.id, 0, x->q.text.n - 1);
}

static void
do_window(struct qscore_base *b, struct qscore_run *r,
    const struct qscore_text *x, const struct qscore_window *w)
{
	struct chunk c = { .b = b, .r = r, .x = x, .begin = w->begin };
	struct qwen_eval none = { .logits = QWEN_LOGITS_NONE,
	    .batch = b->batch };
	const int32_t *ids = x->q.text.id + w->begin;
	size_t at = w->first - 1 - w->begin;

	restart(b, b->base);
	restart(b, b->own);
	if (at > 0) {
		tool_eval(b->own, ids, at, &none);
		if (b->model != NULL)
			tool_eval(b->base, ids, at, &none);
	}
	do_chunks(&c, ids, at, w->end - 1 - w->begin);
}

static void
do_text(struct qscore_base *b, struct qscore_run *r, struct qscore_text *x)
{
	struct qscore_window w;

	if (b->n_past > 0) {
		if (x->q.text.n > r->context - b->n_past)
			die("%s: %s after a state of %zu: more than the "
			    "context of %zu", x->name, cli_count(x->q.text.n,
			    "token"), b->n_past, r->context);
		do_after(b, r, x);
		return;
	}
	if (b->rows != NULL && x->q.text.n > r->context)
		die("%s: %zu tokens, more than the context of %zu; a longer "
		    "text cannot be compared with rows: give the other model "
		    "to --base", x->name, x->q.text.n, r->context);
	for (x->at = x->q.from; x->at < x->q.text.n;) {
		qscore_next_window(r, x, &w);
		do_window(b, r, x, &w);
	}
	b->last = x->q.text.n - 1;
}

static void
open_sessions(struct qscore_base *b, const struct qscore_run *r)
{
	struct tool_need need = { .n_tokens = r->context, .batch = b->batch };

	tool_memory_check(r->work.model, &need);
	cli_must(NULL, qwen_session_new(&b->own, r->work.model, &cli_err));
	if (b->model == NULL)
		return;
	tool_memory_check(b->model, &need);
	if (b->n_past == 0) {
		cli_must(NULL, qwen_session_new(&b->base, b->model, &cli_err));
		return;
	}
	if (b->n_past > r->context)
		die("%s: the state has %s, more than the context of "
		    "%zu", b->name,
		    cli_count(b->n_past, "token"), r->context);
	tool_eval(b->own, qwen_session_tokens(b->base), b->n_past,
	    &(struct qwen_eval){ .batch = b->batch });
	cli_must(NULL, qwen_session_keep(b->own, 1, &cli_err));
	cli_must(NULL, qwen_session_keep(b->base, 1, &cli_err));
}

void
qscore_compare_all(struct qscore_base *b, struct qscore_run *r)
{
	struct qwen_text t = { 0 };
	struct tool_input *item;
	struct qscore_text *x;

	open_sessions(b, r);
	while (item = NULL, r->queue.next(r, &item)) {
		if (item == NULL)
			continue;
		x = (struct qscore_text *)(void *)item;
		if (x->q.refusal.err.code != 0)
			warn("%s: %s", x->name, x->q.refusal.err.msg);
		else
			do_text(b, r, x);
		qwen_score_request_fini(&x->q);
		free(x);
		cli_progress(++r->queue.n_done);
	}
	if (b->sum.n == 0)
		return;
	check_end(b, r);
	if (!r->per_token || r->json)
		qscore_write_stats(&b->sum, r->json, &t);
	qscore_write(r, &t);
	qwen_text_fini(&t);
}
