/* SPDX-License-Identifier: ISC */
/*
 * qbench.c - how fast a model runs here, and how near to what the machine can
 * do.  This is the command line; what is measured is in qbench/.
 */
#include <stdlib.h>
#include <string.h>

#include "qbench/qbench.h"

struct qbench_opts qbench_opt = {
	.synth = { .seed = 1, .no_mtp = 1 },
	.prompt = { 1, { 512 } }, .threads = { 1, { 0 } },
	.depth = { 1, { 0 } }, .batch = { 1, { 0 } },
	.sequences = { 1, { 1 } },
	.n = 64, .rounds = 5,
};

static void
parse_list(const struct cli_opt *o, const char *s)
{
	const char *what = cli_opt_name(o);
	struct list *l = o->to;
	char one[32];
	size_t n;

	for (l->n = 0;; s += n + 1) {
		n = strcspn(s, ",");
		if (l->n == MAX_LIST)
			cli_usage("%s: more than %d values", what, MAX_LIST);
		if (n >= sizeof one)
			cli_usage("%s: '%s' is not a number", what, s);
		memcpy(one, s, n);
		one[n] = '\0';
		l->v[l->n++] = (size_t)cli_int(what, one, o->min, o->max);
		if (s[n] == '\0')
			return;
	}
}

#define LIST(l, n, a, p, lo, hi, h) { CLI_ROW(CALL, l, n, a, p, h), \
	.call = parse_list, .min = (lo), .max = (hi) }

static const struct cli_opt options[] = {
	CLI_GROUP("what is measured (lists with commas: each in turn):"),
	CLI_OPT_MODEL(&qbench_opt.model),
	LIST('p', "prompt", "tokens", &qbench_opt.prompt, 0, MAX_TOKENS,
	    "read so many tokens; 512 by default; a list"),
	CLI_INT('n', "count", "count", &qbench_opt.n, 0, MAX_TOKENS,
	    "generate so many tokens; 64 by default"),
	LIST(0, "depth", "tokens", &qbench_opt.depth, 0, MAX_TOKENS,
	    "after so many tokens; a list"),
	LIST(0, "sequences", "n", &qbench_opt.sequences, 1, MAX_SEQUENCES,
	    "of so many texts at the same time; a list"),
	CLI_FLAG(0, "scattered", &qbench_opt.scattered,
	    "whose caches lie in blocks, as those of qbatch do"),
	LIST(0, "batch", "n", &qbench_opt.batch, 0, 1 << 20,
	    "so many tokens in a pass; a list"),
	LIST('t', "threads", "threads", &qbench_opt.threads, 0, 1024,
	    "so many threads; 0, the default: one a processor; a list"),
	CLI_INT('r', "rounds", "rounds", &qbench_opt.rounds, 1, MAX_ROUNDS,
	    "measure so often; 5 by default"),
	CLI_FILE(0, "tokens", "file", &qbench_opt.tokens, "file",
	    "tokens of this stream, not made ones"),
	TOOL_OPT_NUMERICS(&qbench_opt.numerics),
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),

	CLI_GROUP("a model that is made up:"),
	CLI_FILE(0, "synthetic", "shape", &qbench_opt.synthetic, "shapes",
	    "of this shape, see gguf-synth(1)"),
	CLI_FILE(0, "recipe", "name", &qbench_opt.synth.recipe, "recipes",
	    "with the number formats of this mix"),
	CLI_INT(0, "layers", "number", &qbench_opt.synth.n_layer, 1, 1000,
	    "with so many layers"),
	CLI_INT(0, "experts", "number", &qbench_opt.synth.n_expert, 1, 4096,
	    "with so many experts"),
	CLI_INT(0, "vocab-size", "number", &qbench_opt.synth.n_vocab, 1,
	    QWEN_VOCAB_MAX, "with so many tokens"),

	CLI_GROUP("other measurements:"),
	CLI_FLAG(0, "machine", &qbench_opt.machine,
	    "what the machine can do, without a model"),
	CLI_FLAG(0, "sampling", &qbench_opt.sampling,
	    "how long choosing a token takes"),
	CLI_U64(0, "since", "time", &qbench_opt.since,
	    "how long a process takes to its first token"),

	CLI_GROUP("what is shown:"),
	CLI_FLAG(0, "json", &qbench_opt.json, "a JSON object a setting"),
	CLI_FLAG(0, "csv", &qbench_opt.csv, "a line of values a setting"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qbench",
	.about = "measure how fast a model runs, against what the machine can "
	    "do",
	.usage = "[options]\n--machine [-t threads] [options]\n"
	    "--sampling [-r rounds] [-m model | --vocab-size number] [options]\n"
	    "--since time [-m model] [-t threads]",
	.options = options,
};

size_t
qbench_longest(const struct list *l)
{
	size_t i, n = 0;

	for (i = 0; i < l->n; i++)
		n = l->v[i] > n ? l->v[i] : n;
	return n;
}

static void
check_options(void)
{
	const struct qbench_opts *o = &qbench_opt;
	size_t i, longest = 0;

	for (i = 0; i < o->prompt.n; i++)
		longest |= o->prompt.v[i];
	if (longest == 0 && o->n == 0)
		cli_usage("-p 0 -n 0: nothing to measure");
	if (o->json && o->csv)
		cli_usage("--json and --csv exclude each other");
	if (o->machine + o->sampling + (cli_given(&o->since) > 0) > 1)
		cli_usage("--machine, --sampling and --since exclude each "
		    "other");
	if (o->synthetic != NULL && o->model != NULL)
		cli_usage("-m and --synthetic exclude each other");
	if (o->sampling && o->model != NULL && o->synth.n_vocab != 0)
		cli_usage("--sampling: -m or --vocab-size, not both");
	if (o->synthetic == NULL && (o->synth.recipe || o->synth.n_layer ||
	    o->synth.n_expert || (o->synth.n_vocab && !o->sampling)))
		cli_usage("--recipe, --layers, --experts and --vocab-size go "
		    "with --synthetic");
}

int
main(int argc, char *argv[])
{
	size_t i;

	cli_begin(&tool, argc, argv);
	check_options();
	tool_cpu();	/* what is wrong with it comes before any table */
	if (cli_given(&qbench_opt.since))
		return qbench_run_since();
	if (qbench_opt.machine) {
		qbench_show_machine();
		return cli_finish();
	}
	if (qbench_opt.sampling) {
		qbench_show_sampling();
		return cli_finish();
	}
	qbench_model_path = qbench_model_name = qbench_opt.synthetic == NULL ?
	    tool_model_path(qbench_opt.model) : NULL;
	if (qbench_opt.synthetic != NULL)
		qbench_make_synthetic();
	qbench_fits();
	qbench_warm_file();
	for (i = 0; i < qbench_opt.threads.n; i++)
		qbench_run((int)qbench_opt.threads.v[i]);
	free(qbench_ids);
	return cli_finish();
}
