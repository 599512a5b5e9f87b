/* SPDX-License-Identifier: ISC */
/* gguf-merge.c - write a model file with adapters merged into its weights. */
#include <stdlib.h>
#include <unistd.h>

#include "quantize/quantize.h"
#include "tool/tool.h"

static struct opts {
	const char	*model, *out, *imatrix;
	struct qwen_quantize_opts q;
} opt;

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	TOOL_OPT_MODEL(&opt.model),
	TOOL_OPT_LORA,
	CLI_STD('o', "output", "file", &opt.out, "output",
	    "write to this file instead of stdout"),
	CLI_FILE(0, "type", "name", &opt.q.recipe, "types",
	    "format, or mix of formats, of all weights, as in Q4_K_M"),
	CLI_FILE(0, "imatrix", "file", &opt.imatrix, "file",
	    "importance matrix, as qprefill --imatrix writes it"),
	CLI_OPT_THREADS(&opt.q.threads),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-merge",
	.about = "merge LoRA adapters into the weights of a model file",
	.usage = "--lora adapter [options]", .options = options, .max = 0,
};

static void
write_model(struct qwen_quantize *p, int fd, const char *out)
{
	int started = 0;
	const struct qwen_quantize_progress progress = { cli_progress_bytes,
	    &started };
	double start = cli_now();

	cli_must(out, qwen_quantize_write(p, fd, &progress, &cli_err));
	cli_progress_end();
	if (cli_verbose)
		cli_note("%s, %.2f MiB in %.1f s",
		    cli_count(qwen_quantize_n_tensors(p), "tensor"),
		    (double)qwen_quantize_bytes(p) / (1 << 20),
		    cli_now() - start);
}

static void
merge(const char *in, struct opts *o)
{
	struct qwen_gguf *g = tool_gguf_open(in);
	struct qwen_imatrix *m = NULL;
	struct cli_output *file;
	struct qwen_quantize *p;
	const char *s;
	size_t i;

	if (o->imatrix != NULL)
		cli_must(o->imatrix,
		    qwen_imatrix_open(&m, o->imatrix, &cli_err));
	o->q.imatrix = m;
	o->q.imatrix_name = o->imatrix;
	o->q.adapters = tool_lora.v;
	o->q.n_adapters = tool_lora.n;
	o->q.cpu = getenv("QWEN_CPU");
	cli_must(in, qwen_quantize_new(&p, g, &o->q, &cli_err));
	for (i = 0; (s = qwen_quantize_note(p, i)) != NULL; i++)
		cli_note("%s: %s", in, s);
	file = cli_output_open(o->out);
	write_model(p, cli_output_fd(file), cli_output_name(file));
	cli_output_commit(file);
	qwen_quantize_free(p);
	qwen_imatrix_close(m);
	qwen_gguf_close(g);
}

int
main(int argc, char *argv[])
{
	size_t recipe;

	cli_begin(&tool, argc, argv);
	if (tool_lora.n == 0)
		cli_usage("--lora is missing: give the adapter to merge");
	if (opt.q.recipe != NULL && qwen_quantize_find(&recipe, opt.q.recipe,
	    &cli_err) < 0)
		cli_usage("--type: %s; gguf-quantize --list-types shows the "
		    "known ones", cli_err.msg);
	if (opt.out == NULL && isatty(STDOUT_FILENO))
		die("not writing a model to a terminal; give -o file");
	merge(tool_model_path(opt.model), &opt);
	return cli_finish();
}
