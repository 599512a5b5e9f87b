/* SPDX-License-Identifier: ISC */
/* gguf-inspect.c - show, check and compare GGUF files; never writes one. */
#include <stdio.h>
#include <stdlib.h>

#include "gguf-inspect/gguf-inspect.h"

enum { JSON = 1, CHECK = 2, DIFF = 4, PLAN = 8, GRAPH = 16 };

static struct {
	unsigned	 mode;
	int		 dot;
	const char	*tensor, *key, *model;
	struct inspect_plan_opts plan;
} opt;

int inspect_full;

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	TOOL_OPT_MODEL(&opt.model),
	CLI_FLAG(0, "full", &inspect_full, "print long strings and arrays in "
	    "full"),
	CLI_SET(0, "json", &opt.mode, JSON, "print JSON, always in full"),
	CLI_SET(0, "check", &opt.mode, CHECK,
	    "check the file and report what is wrong"),
	CLI_SET(0, "diff", &opt.mode, DIFF,
	    "show the differences of two files"),
	CLI_TEXT(0, "get", "key", &opt.key,
	    "print the value of this key, as in context_length; or n_vocab"),
	CLI_FILE(0, "values", "tensor", &opt.tensor, "tensors",
	    "print the numbers of this tensor, one row per line"),
	CLI_SET(0, "graph", &opt.mode, GRAPH,
	    "print the stages of the forward pass, for qprefill --trace"),
	CLI_FLAG(0, "dot", &opt.dot, "print --graph for dot(1)"),
	CLI_SET(0, "plan", &opt.mode, PLAN,
	    "print memory, work per token and speed on this machine"),
	CLI_INT('c', "context", "n", &opt.plan.context, 1, 1 << 30,
	    "with --plan: texts of N tokens (default 4096)"),
	CLI_INT(0, "sequences", "n", &opt.plan.sequences, 1, 4096,
	    "with --plan: N texts at the same time (default 1)"),
	CLI_INT(0, "ranks", "n", &opt.plan.ranks, 1, INSPECT_RANKS_MAX,
	    "with --plan: N hosts with equal shares, as --device mpi"),
	CLI_INT(0, "checkpoint-every", "n", &opt.plan.keep.every, 0, INT64_MAX,
	    "with --plan: a checkpoint every N tokens; 0: none"),
	TOOL_OPT_BATCH(&opt.plan.batch),
	CLI_OPT_THREADS(&opt.plan.n_threads),
	TOOL_OPT_DEVICE,
	TOOL_OPT_NUMERICS(&opt.plan.numerics),
	TOOL_OPT_KV,
	TOOL_OPT_LORA,
	TOOL_OPT_ROPE,
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-inspect", .about = "show, check and compare GGUF files",
	.usage = "[options] [file]\n--get key [-m model] [file]\n"
	    "--values tensor [-m model] [file]\n"
	    "--graph [--dot] [file]\n--plan [-c n] [--json] [file]\n--diff [--full] file1 file2",
	.options = options, .max = 2, .completes = "file gguf",
};

static void
put_row(const float *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (i > 0)
			putchar(' ');
		inspect_put_real((double)v[i], 1);
	}
	putchar('\n');
}

static void
show_values(const struct qwen_gguf *g, const char *path, const char *name)
{
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(g, name);
	uint64_t rows, i, left;
	size_t n, stride;
	float *row;

	if (t == NULL)
		die("%s: there is no tensor %s", path, name);
	n = (size_t)t->ne[0];
	rows = inspect_elements(t) / n;
	stride = (size_t)(t->bytes / rows);
	if (n > SIZE_MAX / sizeof *row || (row = malloc(n * sizeof *row)) == NULL)
		die("%s: out of memory for a row of %s", path, name);
	for (i = 0; i < rows; i++) {
		if (qwen_quant_dequantize(t->type, qwen_gguf_data(t,
		    i * stride, &left), row, n, &cli_err) < 0) {
			free(row);
			die("%s: tensor %s: %s", path, name, cli_err.msg);
		}
		put_row(row, n);
		cli_check_stdout();
	}
	free(row);
}

struct checking {
	const char	*path;
	uint64_t	 done;
};

static void
problem(void *arg, const char *msg)
{
	const struct checking *c = arg;

	warn("%s: %s", c->path, msg);
}

static void
progress(void *arg, uint64_t bytes)
{
	struct checking *c = arg;

	c->done += bytes;
	cli_progress(c->done >> 20);
}

/*
 * Return -1 after a warning if a vocabulary of a supported kind is damaged,
 * else 0.
 */
static int
check_vocabulary(const struct qwen_gguf *g, const char *path)
{
	const unsigned both = QWEN_TOK_ENCODE | QWEN_TOK_DECODE;
	struct qwen_tok *tok;

	if (qwen_tok_check(g, both, &cli_err) < 0)
		return 0;
	if (qwen_tok_open(&tok, g, both, &cli_err) == 0) {
		qwen_tok_close(tok);
		return 0;
	}
	if (cli_err.code == QWEN_ENOMEM)
		cli_die_err(path, &cli_err);
	warn("%s: %s", path, cli_err.msg);
	return -1;
}

static void
check(const struct qwen_gguf *g, const char *path)
{
	struct checking c = { path, 0 };
	const struct qwen_gguf_checker checker = { problem, progress, &c };
	struct inspect_image im;
	int rc;

	inspect_progress(g);
	rc = qwen_gguf_check(g, &checker, NULL);
	inspect_image_open(&im, g);
	if (im.code == QWEN_EFORMAT)
		warn("%s: %s", path, im.why);
	inspect_image_fini(&im);
	/* qwen_gguf_check reported the problems it found */
	if (rc == 0)
		rc = check_vocabulary(g, path);
	if (rc == 0 && cli_verbose)
		cli_note("%s: good: %s, %s, %.2f MiB", path,
		    cli_count(qwen_gguf_n_kv(g), "key"),
		    cli_count(qwen_gguf_n_tensors(g), "tensor"),
		    inspect_mib(c.done));
	cli_progress_end();
}

static int
diff(const char *path_a, const char *path_b)
{
	struct qwen_gguf *a = tool_gguf_open(path_a), *b =
	    tool_gguf_open(path_b);
	int differ = inspect_diff(a, b), status;

	qwen_gguf_close(a);
	qwen_gguf_close(b);
	status = cli_finish();
	return differ ? 1 : status;
}

static void
check_options(void)
{
	unsigned one = opt.mode == (PLAN | JSON) ? PLAN : opt.mode;

	if ((one & (one - 1)) != 0 || (one != 0) + (opt.tensor != NULL) +
	    (opt.key != NULL) > 1)
		cli_usage("--json, --check, --diff, --get, --graph, --plan and "
		    "--values exclude each other, except --plan --json");
	if (one != GRAPH && opt.dot)
		cli_usage("--dot needs --graph");
	if (one != PLAN && (cli_given(&opt.plan.context) || opt.plan.sequences ||
	    opt.plan.batch || opt.plan.ranks || cli_given(&opt.plan.n_threads) ||
	    cli_given(&opt.plan.keep.every) || opt.plan.numerics ||
	    tool_device != NULL))
		cli_usage("-c, --sequences, --ranks, --checkpoint-every, --batch, -t, "
		    "--device and --numerics need --plan");
	if (opt.plan.ranks > 0 && tool_device != NULL)
		cli_usage("--ranks and --device exclude each other");
	if (inspect_full && (one == CHECK || one == GRAPH || one == PLAN ||
	    opt.tensor != NULL || opt.key != NULL))
		cli_usage("--full has no effect with --check, --get, --graph, "
		    "--plan and --values");
}

int
main(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv);
	struct qwen_gguf *g;
	const char *path;

	check_options();
	if (opt.mode == DIFF) {
		if (n != 2 || opt.model != NULL)
			cli_usage("--diff takes two files");
		return diff(tool_model_find(argv[1]),
		    tool_model_find(argv[2]));
	}
	if (n > 0 && opt.model != NULL)
		cli_usage("-m and a file exclude each other");
	if (n > 1)
		cli_usage("unexpected argument: %s", argv[2]);
	path = n > 0 ? tool_model_find(argv[1]) : tool_model_path(opt.model);
	if (opt.mode & PLAN) {
		if (!inspect_plan_image(path, opt.plan.n_threads, opt.mode &
		    JSON))
			inspect_plan(path, &opt.plan, opt.mode & JSON);
		return cli_finish();
	}
	g = tool_gguf_open(path);
	if (opt.mode == JSON)
		inspect_json(g);
	else if (opt.mode == CHECK)
		check(g, path);
	else if (opt.mode == GRAPH)
		inspect_graph(g, path, opt.dot);
	else if (opt.key != NULL)
		inspect_get(g, path, opt.key);
	else if (opt.tensor != NULL)
		show_values(g, path, opt.tensor);
	else
		inspect_show(g);
	qwen_gguf_close(g);
	return cli_finish();
}
