/* SPDX-License-Identifier: ISC */
/* model_out.c - writes model files, with notes and progress. */
#include <stdlib.h>
#include <unistd.h>

#include "tool/model_out.h"

void
tool_model_out_check(const char *path)
{
	if (path == NULL && isatty(STDOUT_FILENO))
		die("not writing a model to a terminal; give -o file");
}

void
tool_model_out_notes(const struct qwen_gguf_writer *w, const char *from)
{
	const char *note;
	size_t i;

	for (i = 0; (note = qwen_gguf_writer_note(w, i)) != NULL; i++)
		cli_note("%s: %s", from, note);
}

int
tool_model_out_open(struct tool_model_out *o, const char *path,
    struct qwen_gguf_writer *w)
{
	o->w = w;
	o->file = cli_output_open(path);
	o->name = cli_output_name(o->file);
	o->start = cli_now();
	o->started = 0;
	qwen_gguf_writer_progress(w, cli_progress_bytes, &o->started);
	return cli_output_fd(o->file);
}

void
tool_model_out_end(struct tool_model_out *o, const char *title)
{
	cli_progress_end();
	if (cli_verbose)
		cli_note("%s%s%s, %.2f MiB in %.1f s",
		    title != NULL ? title : "", title != NULL ? ": " : "",
		    cli_count(qwen_gguf_writer_n_tensors(o->w), "tensor"),
		    (double)qwen_gguf_writer_bytes(o->w) / (1 << 20),
		    cli_now() - o->start);
	cli_output_commit(o->file);
}

void
tool_model_out_quantize(const struct qwen_gguf *g, const char *in,
    const char *path, struct qwen_quantize_opts *q)
{
	struct qwen_imatrix *m = NULL;
	struct qwen_quantize *p;
	struct tool_model_out o;
	int fd;

	if (q->imatrix_name != NULL)
		cli_must(q->imatrix_name, qwen_imatrix_open(&m, q->imatrix_name,
		    &cli_err));
	q->imatrix = m;
	q->cpu = getenv("QWEN_CPU");
	cli_must(in, qwen_quantize_new(&p, g, q, &cli_err));
	cli_progress_end();	/* of the calibration */
	tool_model_out_notes(qwen_quantize_writer(p), in);
	fd = tool_model_out_open(&o, path, qwen_quantize_writer(p));
	cli_must(o.name, qwen_quantize_write(p, fd, &cli_err));
	tool_model_out_end(&o, NULL);
	qwen_quantize_free(p);
	qwen_imatrix_close(m);
}
