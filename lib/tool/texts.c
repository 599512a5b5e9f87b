/* SPDX-License-Identifier: ISC */
/* texts.c - what qembed and qrerank share. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/texts.h"

/* -------------------------------------------------------------------- model */

void
tool_texts_check(struct tool_texts *x, const char *file)
{
	if (x->unknown.strict && !x->requests)
		cli_usage("--strict needs --requests");
	tool_store_from_env(&x->work.at);
	x->file = file != NULL && strcmp(file, "-") != 0 ? file : NULL;
	if (x->file == NULL)
		cli_need_stdin();
}

void
tool_texts_open_model(struct tool_texts *x)
{
	tool_work_open_model(&x->work);
	x->cut = x->truncate ? qwen_model_n_ctx(x->work.model) : 0;
}

/* --------------------------------------------------------------------- jobs */

static void
on_hidden(void *arg, size_t at, const float *x)
{
	struct tool_text_sum *p = arg;
	size_t n = qwen_model_n_embd(p->item->texts->work.model);

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
	struct tool_texts *x = p->item->texts;

	if (why == QWEN_JOB_FAILED)
		tool_refuse(p->item->no, "failed", err);
	else
		x->end(p);
	free(p->sum);
	p->sum = NULL;
	x->n_tokens += p->n_tokens;
	p->item->input.left--;
	cli_progress_also(x->n_tokens, "tok");
	cli_progress(x->queue.n_done);
}

void
tool_text_sum_add_job(struct tool_text_sum *p, struct tool_text *item,
    const struct qwen_embedding *how, const struct qwen_ids *text)
{
	const struct tool_work *w = &item->texts->work;
	struct qwen_job job = { .tokens = text->id, .n = text->n,
	    .hidden = on_hidden, .end = on_end, .arg = p };
	struct qwen_err err;

	*p = (struct tool_text_sum){ .item = item };
	job.from = qwen_embedding_from(how, &job.n);
	p->n_tokens = job.n;
	if (qwen_work_add(w->work, &job, &err) == 0) {
		item->input.left++;
		item->input.bytes += job.n * sizeof *job.tokens +
		    qwen_model_n_embd(w->model) * sizeof *p->sum;
		return;
	}
	cli_die_oom(&err);
	tool_refuse(item->no, "invalid_request", &err);
}

/* -------------------------------------------------------------------- texts */

void
tool_texts_begin(struct tool_texts *x, struct tool_text *item,
    struct qwen_refusal *no, uint64_t number, size_t size)
{
	*item = (struct tool_text){ .texts = x, .no = no, .line = number,
	    .input.bytes = size };
	/* not before the first text, so that errors in the input come alone */
	if (x->note != NULL)
		cli_note("%s: %s", qwen_gguf_path(x->work.gguf, 0), x->note);
	x->note = NULL;
}

static int
next(void *arg, struct tool_input **out)
{
	struct tool_texts *x = arg;
	struct tool_text *item;
	struct tool_line line;

	if (x->stream != NULL) {
		item = x->stream();
		*out = item != NULL ? &item->input : NULL;
		return item != NULL;
	}
	if (!tool_lines_next(&x->lines, &line))
		return 0;
	if (!tool_force)
		tool_lines_check(&x->lines, &line, x->hint);
	if (!x->requests || !tool_line_is_blank(&line))
		*out = &x->line(&line)->input;
	return 1;
}

static int
waiting(void *arg)
{
	struct tool_texts *x = arg;

	return tool_lines_waiting(&x->lines);
}

/* Writes t to the output and frees it. */
static void
write_text(const struct tool_texts *x, struct qwen_text *t)
{
	if (t->n > 0 || t->failed)
		cli_write_all(cli_output_fd(x->out), cli_output_name(x->out),
		    t);
	qwen_text_fini(t);
}

/*
 * Without --requests, dies if the text was refused: a missing line would assign
 * later results to the wrong texts.
 */
static void
put(void *arg, struct tool_input *input)
{
	struct tool_texts *x = arg;
	struct tool_text *item = (struct tool_text *)(void *)input;
	struct qwen_text t = { 0 };

	if (!x->requests && item->no->err.code != 0)
		die("%s: %s %llu: %s", x->lines.name, x->stream != NULL ?
		    "text" : "line", cli_llu(item->line), item->no->err.msg);
	tool_note_failed(&x->work, item->line, item->no);
	x->put(item, &t);
	write_text(x, &t);
}

/* ---------------------------------------------------------------------- run */

void
tool_report_results(const struct tool_work *w, uint64_t n, uint64_t n_tokens,
    const char *what, double start)
{
	struct qwen_work_stats st;
	double s = cli_now() - start;

	if (!cli_verbose)
		return;
	qwen_work_stats(w->work, &st);
	cli_note("%s in %.3f s, %.1f per second; %llu of them failed",
	    cli_count(n, what), s, (double)n / s, cli_llu(w->n_failed));
	cli_note("%s in them, %.1f tok/s; %llu read, %llu shared, %llu from "
	    "the store; passes: %llu in %.3f s; %s a sequence was preempted",
	    cli_count(n_tokens, "token"), (double)n_tokens / s,
	    cli_llu(st.read), cli_llu(st.shared), cli_llu(st.stored),
	    cli_llu(st.n_passes), st.pass_s, cli_count(st.preempted, "time"));
	tool_report_stats(w->model);
}

static void
run(struct tool_texts *x)
{
	const char *what = x->requests && strcmp(x->text, "text") != 0 ?
	    "request" : x->text;
	double start = cli_now();
	struct qwen_text t = { 0 };
	char plural[32];

	snprintf(plural, sizeof plural, "%ss", what);
	x->queue = (struct tool_queue){ .work = &x->work, .next = next,
	    .waiting = waiting, .put = put, .arg = x };
	cli_progress_start(plural, x->stream != NULL || cli_quiet ||
	    !isatty(STDERR_FILENO) ? 0 : tool_lines_count(x->lines.fd));
	tool_queue_run(&x->queue);
	cli_progress_end();
	if (x->finish != NULL)
		x->finish(&t);
	write_text(x, &t);
	tool_report_unknown(&x->unknown);
	if (x->requests)
		tool_warn_failed(&x->work, 0, x->queue.n_done);
	if (x->n_cut > 0)
		cli_note("%s cut to the context of %zu tokens",
		    cli_count(x->n_cut, x->text), x->cut);
	tool_report_results(&x->work, x->queue.n_done, x->n_tokens, what, start);
}

int
tool_texts_run(struct tool_texts *x, void (*open_model)(void))
{
	int status;

	tool_lines_open(&x->lines, x->file);
	open_model();
	tool_work_open(&x->work);
	x->out = cli_output_open(x->output);
	run(x);
	cli_output_commit(x->out);
	status = cli_finish();
	tool_work_close(&x->work);
	return status;
}
