/* SPDX-License-Identifier: ISC */
/*
 * gguf-quantize.c - write a model file again with weights in smaller number
 * formats.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/model_out.h"

static struct opts {
	const char	*out, *types, *calibration;
	int		 list;
	struct qwen_quantize_opts q;
} opt;

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_FILE(0, "type", "name", &opt.q.recipe, "types",
	    "format, or mix of formats, as in Q4_K_M"),
	CLI_BYTES(0, "size", "bytes", &opt.q.size, 1,
	    "size limit of the file, as in 17G: choose the best formats for "
	    "it"),
	CLI_STD('o', "output", "file", &opt.out, "output",
	    "write to this file instead of stdout"),
	CLI_FILE(0, "types", "file", &opt.types, "file",
	    "file with formats for single tensors: lines of pattern and "
	    "format"),
	CLI_FILE(0, "imatrix", "file", &opt.q.imatrix_name, "file",
	    "importance matrix, as qprefill --imatrix writes it"),
	CLI_FILE(0, "calibration", "file", &opt.calibration, "file",
	    "with --size: measure the loss on these tokens (from qtok)"),
	CLI_OPT_THREADS(&opt.q.threads),
	CLI_FLAG(0, "list-types", &opt.list, "list the names for --type"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-quantize",
	.about = "make a model file smaller by quantising its weights",
	.usage = "--type name [options] file\n--size bytes [options] file\n"
	    "--list-types",
	.options = options, .max = 1, .completes = "file gguf",
};

static void
list_types(void)
{
	const char *name;
	size_t i;

	for (i = 0; (name = qwen_quantize_recipe(i)) != NULL; i++)
		puts(name);
}

/*
 * Read a token stream made with this model's vocabulary.  Return its *n ids, to
 * be freed by the caller.
 */
static int32_t *
read_text(const char *path, const struct qwen_gguf *g, size_t *n)
{
	struct qwen_header self;
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS,
	    .self = &self };
	const char *name;
	int32_t *ids;
	int fd = cli_open(path, &name);

	if (fd == -1)
		die("%s: %s", name, strerror(errno));
	cli_must(qwen_gguf_path(g, 0), qwen_header_init(&self,
	    QWEN_STREAM_TOKENS, g, &cli_err));
	cli_must(name, tool_read_ids(fd, &o, SIZE_MAX, &ids, n, &cli_err));
	if (fd > STDIN_FILENO)
		close(fd);
	if (*n == 0)
		die("%s: no tokens; give a few thousand", name);
	return ids;
}

static void
tell_measured(void *arg, uint64_t done, uint64_t total)
{
	int *started = arg;

	if (!*started) {
		cli_progress_start("tokens", total);
		cli_progress_log(60);
	}
	*started = 1;
	cli_progress(done);
}

static void
quantize(const char *in, struct opts *o)
{
	struct qwen_gguf *g = tool_gguf_open(in);
	int measuring = 0;
	char *types = NULL;
	int32_t *ids = NULL;
	size_t n;

	if (o->types != NULL)
		o->q.types = types = cli_read_file(o->types, 1 << 20, &n);
	if (o->calibration != NULL)
		o->q.calibration = ids = read_text(o->calibration, g,
		    &o->q.n_calibration);
	o->q.measuring = tell_measured;
	o->q.measuring_arg = &measuring;
	tool_model_out_quantize(g, in, o->out, &o->q);
	free(ids);
	free(types);
	qwen_gguf_close(g);
}

int
main(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv);
	size_t recipe;

	if (opt.list) {
		list_types();
		return cli_finish();
	}
	if (n == 0)
		cli_usage("no file given");
	if ((opt.q.recipe == NULL) == (opt.q.size == 0))
		cli_usage("neither --type nor --size given; --list-types shows "
		    "the known types");
	if (opt.calibration != NULL && opt.q.size == 0)
		cli_usage("--calibration needs --size");
	if (opt.q.size == 0 && qwen_quantize_find(&recipe, opt.q.recipe, &cli_err) < 0)
		cli_usage("--type: %s; --list-types shows the known ones",
		    cli_err.msg);
	tool_model_out_check(opt.out);
	quantize(tool_model_find(argv[1]), &opt);
	return cli_finish();
}
