/* SPDX-License-Identifier: ISC */
/* texts.c - what qembed and qrerank share. */
#include <string.h>
#include <unistd.h>

#include "tool/texts.h"

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

int
tool_texts_next(struct tool_texts *x, struct tool_line *line)
{
	if (!tool_lines_next(&x->lines, line))
		return 0;
	if (!tool_force)
		tool_lines_check(&x->lines, line, x->hint);
	return x->requests && tool_line_is_blank(line) ? -1 : 1;
}

void
tool_texts_begin(struct tool_texts *x, struct tool_input *item,
    struct qwen_refusal *no, uint64_t number, size_t size)
{
	*item = (struct tool_input){ .queue = &x->queue, .no = no,
	    .line = number, .bytes = size };
	/* not before the first text, so that errors in the input come alone */
	if (x->note != NULL)
		cli_note("%s: %s", qwen_gguf_path(x->work.gguf, 0), x->note);
	x->note = NULL;
}

void
tool_texts_check_refusal(const struct tool_texts *x,
    const struct tool_input *item)
{
	if (!x->requests && item->no->err.code != 0)
		die("%s: %s %llu: %s", x->lines.name, x->streams ? "text" :
		    "line", (unsigned long long)item->line, item->no->err.msg);
}

void
tool_texts_write(const struct tool_texts *x, struct qwen_text *t)
{
	if (t->n > 0 || t->failed)
		cli_write_all(cli_output_fd(x->out), cli_output_name(x->out),
		    t);
	qwen_text_fini(t);
}

static int
waiting(void *arg)
{
	struct tool_texts *x = arg;

	return tool_lines_waiting(&x->lines);
}

/* Returns the number of texts, for the progress line; 0 if unknown. */
static uint64_t
count_texts(const struct tool_texts *x)
{
	return x->streams || cli_quiet || !isatty(STDERR_FILENO) ? 0 :
	    tool_lines_count(x->lines.fd);
}

static void
run(struct tool_texts *x)
{
	const char *what = x->requests && strcmp(x->text, "text") != 0 ?
	    "request" : x->text;
	double start = cli_now();
	char plural[32];

	snprintf(plural, sizeof plural, "%ss", what);
	x->queue.work = &x->work;
	x->queue.waiting = waiting;
	x->queue.arg = x;
	cli_progress_start(plural, count_texts(x));
	tool_queue_run(&x->queue);
	cli_progress_end();
	if (x->finish != NULL)
		x->finish();
	tool_report_unknown(&x->unknown);
	if (x->requests)
		tool_warn_failed(&x->work, 0, x->queue.n_done);
	if (x->n_cut > 0)
		cli_note("%s cut to the context of %zu tokens",
		    cli_count(x->n_cut, x->text), x->cut);
	tool_report_results(&x->queue, what, start);
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
	tool_lines_fini(&x->lines);
	tool_work_close(&x->work);
	return status;
}
