/* SPDX-License-Identifier: ISC */
/* gguf-merge.c - write a model file with adapters merged into its weights. */
#include "tool/model_out.h"

static struct opts {
	const char	*model, *out;
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
	CLI_FILE(0, "imatrix", "file", &opt.q.imatrix_name, "file",
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
merge(const char *in, struct opts *o)
{
	struct qwen_gguf *g = tool_gguf_open(in);

	o->q.adapters = tool_lora.v;
	o->q.n_adapters = tool_lora.n;
	tool_model_out_quantize(g, in, o->out, &o->q);
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
	tool_model_out_check(opt.out);
	merge(tool_model_path(opt.model), &opt);
	return cli_finish();
}
