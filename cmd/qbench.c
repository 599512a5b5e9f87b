/* SPDX-License-Identifier: ISC */
/*
 * qbench.c - how fast a model runs here, and how near to what the machine can
 * do.  This is the command line; what is measured is in qbench/.
 */
#include <stdlib.h>
#include <string.h>

#include "qbench/qbench.h"

static const char usage[] =
    "qbench [-qv] [-m model] [-p tokens] [-n count] [-t threads] [-r rounds]\n"
    "              [--depth tokens] [--sequences n] [--scattered] [--batch n]\n"
    "              [--tokens file]\n"
    "              [--synthetic shape] [--layers number] [--experts number]\n"
    "              [--vocab-size number] [--numerics version]\n"
    "              [--json | --csv]\n"
    "       qbench --machine [-qv] [-t threads] [--json | --csv]\n"
    "       qbench --sampling [-q] [-r rounds] [-m model | --vocab-size number]\n"
    "              [--json | --csv]\n"
    "       qbench --since time [-qv] [-m model] [-t threads]\n";

enum {
	O_DEPTH = 256, O_BATCH, O_TOKENS, O_SYNTHETIC, O_LAYERS, O_EXPERTS,
	O_VOCAB_SIZE, O_JSON, O_CSV, O_MACHINE, O_SAMPLING, O_NUMERICS,
	O_SCATTERED, O_SEQUENCES, O_SINCE
};

static const struct cli_option options[] = {
	{ 'm', "model", 1 },
	{ 'n', "count", 1 },
	{ 'p', "prompt", 1 },
	{ 'r', "rounds", 1 },
	{ 't', "threads", 1 },
	{ O_BATCH, "batch", 1 },
	{ O_CSV, "csv", 0 },
	{ O_DEPTH, "depth", 1 },
	{ O_EXPERTS, "experts", 1 },
	{ O_JSON, "json", 0 },
	{ O_LAYERS, "layers", 1 },
	{ O_MACHINE, "machine", 0 },
	{ O_NUMERICS, "numerics", 1 },
	{ O_SAMPLING, "sampling", 0 },
	{ O_SCATTERED, "scattered", 0 },
	{ O_SEQUENCES, "sequences", 1 },
	{ O_SINCE, "since", 1 },
	{ O_SYNTHETIC, "synthetic", 1 },
	{ O_TOKENS, "tokens", 1 },
	{ O_VOCAB_SIZE, "vocab-size", 1 },
	{ 0, NULL, 0 },
};

struct qbench_opts qbench_opt = {
	.synth = { .seed = 1, .no_mtp = 1 },
	.prompt = { 1, { 512 } }, .threads = { 1, { 0 } },
	.depth = { 1, { 0 } }, .batch = { 1, { 0 } },
	.sequences = { 1, { 1 } },
	.n = 64, .rounds = 5,
};

static void
parse_list(struct list *l, const char *what, const char *s, int64_t min,
    int64_t max)
{
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
		l->v[l->n++] = (size_t)cli_int(what, one, min, max);
		if (s[n] == '\0')
			return;
	}
}

static void
parse_synthetic(int c, const char *arg)
{
	switch (c) {
	case O_SYNTHETIC:
		qbench_opt.synthetic = arg;
		break;
	case O_LAYERS:
		qbench_opt.synth.n_layer = (uint32_t)cli_int("--layers", arg, 1,
		    1000);
		break;
	case O_EXPERTS:
		qbench_opt.synth.n_expert = (uint32_t)cli_int("--experts", arg,
		    1, 4096);
		break;
	case O_VOCAB_SIZE:
		qbench_opt.synth.n_vocab = (uint32_t)cli_int("--vocab-size",
		    arg, 1, QWEN_VOCAB_MAX);
		break;
	}
}

static void
parse_one(int c, const char *arg)
{
	switch (c) {
	case 'm':
		qbench_opt.model = arg;
		break;
	case 'n':
		qbench_opt.n = (size_t)cli_int("-n", arg, 0, MAX_TOKENS);
		break;
	case 'p':
		parse_list(&qbench_opt.prompt, "-p", arg, 0, MAX_TOKENS);
		break;
	case 'r':
		qbench_opt.rounds = (size_t)cli_int("-r", arg, 1, MAX_ROUNDS);
		break;
	case 't':
		parse_list(&qbench_opt.threads, "-t", arg, 0, 1024);
		break;
	case O_BATCH:
		parse_list(&qbench_opt.batch, "--batch", arg, 0, 1 << 20);
		break;
	case O_DEPTH:
		parse_list(&qbench_opt.depth, "--depth", arg, 0, MAX_TOKENS);
		break;
	case O_SCATTERED:
		qbench_opt.scattered = 1;
		break;
	case O_SEQUENCES:
		parse_list(&qbench_opt.sequences, "--sequences", arg, 1,
		    MAX_SEQUENCES);
		break;
	case O_TOKENS:
		qbench_opt.tokens = arg;
		break;
	case O_JSON:
		qbench_opt.json = 1;
		break;
	case O_CSV:
		qbench_opt.csv = 1;
		break;
	case O_MACHINE:
		qbench_opt.machine = 1;
		break;
	case O_NUMERICS:
		qbench_opt.numerics = cli_numerics(arg);
		break;
	case O_SAMPLING:
		qbench_opt.sampling = 1;
		break;
	case O_SINCE:
		qbench_opt.since = cli_u64("--since", arg);
		qbench_opt.has_since = 1;
		break;
	default:
		parse_synthetic(c, arg);
	}
}

size_t
qbench_longest(const struct list *l)
{
	size_t i, n = 0;

	for (i = 0; i < l->n; i++)
		n = l->v[i] > n ? l->v[i] : n;
	return n;
}

static void
parse(int argc, char *argv[])
{
	const char *arg;
	int c, operand;
	size_t i, longest = 0;

	while ((c = cli_getopt(argc, argv, options, NULL, &arg,
	    &operand)) != -1)
		parse_one(c, arg);
	cli_no_operands(argc, argv, operand);
	for (i = 0; i < qbench_opt.prompt.n; i++)
		longest |= qbench_opt.prompt.v[i];
	if (longest == 0 && qbench_opt.n == 0)
		cli_usage("-p 0 -n 0: nothing to measure");
	if (qbench_opt.json && qbench_opt.csv)
		cli_usage("--json and --csv exclude each other");
	if (qbench_opt.machine + qbench_opt.sampling + qbench_opt.has_since > 1)
		cli_usage("--machine, --sampling and --since exclude each "
		    "other");
	if (qbench_opt.synthetic != NULL && qbench_opt.model != NULL)
		cli_usage("-m and --synthetic exclude each other");
	if (qbench_opt.sampling && qbench_opt.model != NULL &&
	    qbench_opt.synth.n_vocab != 0)
		cli_usage("--sampling: -m or --vocab-size, not both");
	if (qbench_opt.synthetic == NULL && (qbench_opt.synth.n_layer ||
	    qbench_opt.synth.n_expert || (qbench_opt.synth.n_vocab &&
	    !qbench_opt.sampling)))
		cli_usage("--layers, --experts and --vocab-size go with "
		    "--synthetic");
}

int
main(int argc, char *argv[])
{
	size_t i;

	cli_init("qbench", usage);
	parse(argc, argv);
	if (qbench_opt.has_since)
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
	    cli_model_path(qbench_opt.model) : NULL;
	if (qbench_opt.synthetic != NULL)
		qbench_make_synthetic();
	qbench_warm_file();
	if (qbench_opt.csv)
		qbench_csv_head();
	for (i = 0; i < qbench_opt.threads.n; i++)
		qbench_run((int)qbench_opt.threads.v[i]);
	qbench_free_tokens();
	return cli_finish();
}
