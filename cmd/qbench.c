/* SPDX-License-Identifier: ISC */
/*
 * qbench.c - measure the speed of a model, and compare it with the limits of
 * the machine.  This file is the command line; qbench/ has the measurements.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qbench/qbench.h"

struct qbench_opts qbench_opt = {
	.synth = { .seed = 1, .no_mtp = 1 },
	.prompt = { 1, { 512 } }, .threads = { 1, { 0 } },
	.depth = { 1, { 0 } }, .batch = { 1, { 0 } },
	.sequences = { 1, { 1 } }, .count = { 1, { 64 } },
	.rounds = 5,
};

/*
 * Copy the next value of a list with commas to one and move *s past it; *s is
 * NULL after the last value.  Return 0 if there is no more value.
 */
static int
next_value(const struct cli_opt *o, const char **s, char one[32])
{
	size_t n;

	if (*s == NULL)
		return 0;
	n = strcspn(*s, ",");
	if (n >= 32)
		cli_usage("%s: '%s' is too long", cli_opt_name(o), *s);
	memcpy(one, *s, n);
	one[n] = '\0';
	*s = (*s)[n] == ',' ? *s + n + 1 : NULL;
	return 1;
}

static void
has_room(const struct cli_opt *o, size_t n)
{
	if (n == QBENCH_MAX_LIST)
		cli_usage("%s: more than %d values", cli_opt_name(o),
		    QBENCH_MAX_LIST);
}

void
qbench_parse_list(const struct cli_opt *o, const char *s)
{
	struct qbench_list *l = o->to;
	char one[32];

	for (l->n = 0; next_value(o, &s, one);) {
		has_room(o, l->n);
		l->v[l->n++] = (size_t)cli_int(cli_opt_name(o), one, o->min,
		    o->max);
	}
}

void
qbench_parse_reals(const struct cli_opt *o, const char *s)
{
	struct qbench_reals *l = o->to;
	char one[32];

	for (l->n = 0; next_value(o, &s, one);) {
		has_room(o, l->n);
		l->v[l->n++] = cli_double(cli_opt_name(o), one, o->low,
		    o->high);
	}
}

/*
 * Add a value of --draft.  A bare number takes the method of the value before
 * it; "none" is always measured, so it is not added.
 */
static void
add_draft(struct qbench_drafts *l, const char *one)
{
	struct qbench_draft *d = &l->v[l->n];
	struct cli_opt to = { .to = &d->how };
	char word[32] = "";

	if (l->n > 0)
		snprintf(word, sizeof word, "%s", l->v[l->n - 1].word);
	word[strcspn(word, ":")] = '\0';
	if (word[0] != '\0' && one[0] != '\0' &&
	    one[strspn(one, "0123456789")] == '\0')
		snprintf(d->word, sizeof d->word, "%s:%s", word, one);
	else
		snprintf(d->word, sizeof d->word, "%s", one);
	tool_draft_parse(&to, d->word);
	if (d->how.mode >= QWEN_DRAFT_MTP)
		l->block.mode = QWEN_DRAFT_MTP;
	l->n += d->how.mode != QWEN_DRAFT_NONE;
}

static void
parse_drafts(const struct cli_opt *o, const char *s)
{
	struct qbench_drafts *l = o->to;
	const char *dot = strrchr(s, '.');
	char one[32];

	if (strchr(s, '/') != NULL || (dot != NULL &&
	    strcmp(dot, ".gguf") == 0)) {
		l->block.file = s;
		return;
	}
	l->block.mode = QWEN_DRAFT_NONE;
	for (l->n = 0; next_value(o, &s, one);) {
		has_room(o, l->n);
		add_draft(l, one);
	}
}

static const struct cli_opt options[] = {
	CLI_GROUP("measurement (a list with commas measures each value):"),
	TOOL_OPT_MODEL(&qbench_opt.model),
	QBENCH_LIST('p', "prompt", "tokens", &qbench_opt.prompt, 0,
	    QBENCH_MAX_TOKENS, "prompt tokens to read; a list (default 512)"),
	QBENCH_LIST('n', "count", "count", &qbench_opt.count, 0,
	    QBENCH_MAX_TOKENS, "tokens to generate (default 64)"),
	QBENCH_LIST(0, "depth", "tokens", &qbench_opt.depth, 0,
	    QBENCH_MAX_TOKENS,
	    "tokens already in the context; a list (default 0)"),
	QBENCH_LIST(0, "sequences", "n", &qbench_opt.sequences, 1,
	    QBENCH_MAX_SEQUENCES,
	    "sequences at the same time; a list (default 1)"),
	QBENCH_LIST(0, "batch", "n", &qbench_opt.batch, 0, 1 << 20,
	    "tokens per pass; a list"),
	QBENCH_LIST('t', "threads", "threads", &qbench_opt.threads, 0, 1024,
	    "threads; 0: one per processor or core; a list (default 0)"),
	CLI_INT('r', "rounds", "rounds", &qbench_opt.rounds, 1,
	    QBENCH_MAX_ROUNDS,
	    "number of measurements of each setting (default 5)"),
	CLI_FILE(0, "tokens", "file", &qbench_opt.tokens, "file",
	    "use the tokens of this stream instead of random ones"),
	TOOL_OPT_NUMERICS(&qbench_opt.numerics),
	TOOL_OPT_QUANTIZE,
	TOOL_OPT_KV,
	TOOL_OPT_LORA,
	TOOL_OPT_ROPE,
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),

	CLI_GROUP("synthetic model:"),
	CLI_FILE(0, "synthetic", "shape", &qbench_opt.synthetic, "shapes",
	    "measure a random model of this shape, see gguf-synth(1)"),
	CLI_FILE(0, "recipe", "name", &qbench_opt.synth.recipe, "recipes",
	    "mix of number formats of the synthetic model"),
	CLI_INT(0, "layers", "number", &qbench_opt.synth.n_layer, 1, 1000,
	    "number of layers of the synthetic model"),
	CLI_INT(0, "experts", "number", &qbench_opt.synth.n_expert, 1, 4096,
	    "number of experts of the synthetic model"),
	CLI_INT(0, "vocab-size", "number", &qbench_opt.synth.n_vocab, 1,
	    QWEN_VOCAB_MAX, "number of tokens of the synthetic model"),

	CLI_GROUP("other measurements:"),
	CLI_FLAG(0, "machine", &qbench_opt.machine,
	    "measure the machine only, without a model"),
	CLI_FLAG(0, "sampling", &qbench_opt.sampling,
	    "measure how long choosing a token takes"),
	CLI_FLAG(0, "tune", &qbench_opt.tune,
	    "find the faster instruction set; tools remember it"),
	CLI_CALL(0, "draft", "how", &qbench_opt.draft, parse_drafts,
	    "words auto mtp lookup none",
	    "measure the gain of drafts, as in mtp:4; a list, or a file"),
	QBENCH_REALS("accept", "p", &qbench_opt.accept, 0, 1,
	    "simulate that drafts are right with probability P; a list"),
	CLI_U64(0, "since", "time", &qbench_opt.since,
	    "measure the time from TIME to the first token of a process"),

	CLI_ROWS(NULL, qbench_url_rows),

	CLI_GROUP("output:"),
	CLI_WORD(0, "by", "what", &qbench_opt.by_kernel, "purpose kernel",
	    "rows of the second table (default purpose)"),
	CLI_FLAG(0, "json", &qbench_opt.json, "print a JSON object for each "
	    "setting"),
	CLI_FLAG(0, "csv", &qbench_opt.csv, "print a line of values for each "
	    "setting"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qbench",
	.about = "measure how fast a model runs, against what the machine can "
	    "do",
	.usage = "[options]\n--machine [-t threads] [options]\n"
	    "--sampling [-r rounds] [-m model | --vocab-size number] [options]\n"
	    "--tune [options]\n"
	    "--draft how [--accept p] [-n count] [--depth tokens] [options]\n"
	    "--url url [--clients n] [--rate r] [options]\n"
	    "--since time [-m model] [-t threads]",
	.options = options,
};

size_t
qbench_longest(const struct qbench_list *l)
{
	size_t i, n = 0;

	for (i = 0; i < l->n; i++)
		n = l->v[i] > n ? l->v[i] : n;
	return n;
}

static void
check_drafts(struct qbench_opts *o)
{
	size_t i;

	if (!o->has_drafts && o->accept.n > 0)
		cli_usage("--accept needs --draft");
	if (!o->has_drafts)
		return;
	if (cli_given(&o->prompt) || cli_given(&o->batch) ||
	    cli_given(&o->sequences))
		cli_usage("--draft measures the decoding of one sequence: not "
		    "with -p, --batch and --sequences");
	if (o->n == 0)
		cli_usage("--draft -n 0: nothing to measure");
	if (o->draft.block.file != NULL &&
	    o->draft.block.mode == QWEN_DRAFT_NONE)
		cli_usage("--draft %s has no effect without --draft mtp or "
		    "auto", o->draft.block.file);
	for (i = 0; o->accept.n > 0 && i < o->draft.n; i++) {
		if (o->draft.v[i].how.n == 0)
			cli_usage("--draft %s: --accept needs a number of "
			    "drafts, as in mtp:4", o->draft.v[i].word);
	}
	o->prompt.v[0] = 0;
	/* a synthetic model gets an MTP block if --draft needs one */
	o->synth.no_mtp = o->draft.block.mode == QWEN_DRAFT_NONE ||
	    o->draft.block.file != NULL;
}

/* With --url, exit with an error for options that measure in this process. */
static void
check_url(void)
{
	const void *const shared[] = { &qbench_opt.prompt, &qbench_opt.count,
	    &qbench_opt.json, &qbench_opt.csv };
	const struct cli_opt *o;
	size_t i;

	for (o = options; o->kind != CLI_KIND_END; o++) {
		for (i = 0; i < sizeof shared / sizeof shared[0]; i++) {
			if (o->to == shared[i])
				break;
		}
		if (i == sizeof shared / sizeof shared[0] && o->to != NULL &&
		    cli_given(o->to))
			cli_usage("%s measures a model in this process: not "
			    "with --url", cli_opt_name(o));
	}
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
	if (o->machine + o->sampling + o->tune + o->has_drafts +
	    (cli_given(&o->since) > 0) > 1)
		cli_usage("--machine, --sampling, --tune, --draft and --since "
		    "exclude each other");
	if (o->synthetic != NULL && o->model != NULL)
		cli_usage("-m and --synthetic exclude each other");
	if (o->sampling && o->model != NULL && o->synth.n_vocab != 0)
		cli_usage("--sampling: -m or --vocab-size, not both");
	if (o->synthetic == NULL && (o->synth.recipe || o->synth.n_layer ||
	    o->synth.n_expert || (o->synth.n_vocab && !o->sampling)))
		cli_usage("--recipe, --layers, --experts and --vocab-size need "
		    "--synthetic");
}

int
main(int argc, char *argv[])
{
	size_t i;

	cli_begin(&tool, argc, argv);
	if (qbench_opt.json && qbench_opt.csv)
		cli_usage("--json and --csv exclude each other");
	if (qbench_url_check()) {
		check_url();
		return qbench_run_url();
	}
	if (qbench_opt.count.n > 1)
		cli_usage("-n: a list needs --url");
	qbench_opt.n = qbench_opt.count.v[0];
	qbench_opt.has_drafts = cli_given(&qbench_opt.draft) > 0;
	check_options();
	check_drafts(&qbench_opt);
	tool_cpu();	/* reports bad settings before any table */
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
	if (qbench_opt.tune) {
		qbench_show_tuning();
		return cli_finish();
	}
	qbench_model_path = qbench_model_name = qbench_opt.synthetic == NULL ?
	    tool_model_path(qbench_opt.model) : NULL;
	if (qbench_opt.synthetic != NULL)
		qbench_make_synthetic();
	qbench_check_memory();
	qbench_warm_file();
	for (i = 0; i < qbench_opt.threads.n; i++)
		(qbench_opt.has_drafts ? qbench_run_drafts : qbench_run)(
		    (int)qbench_opt.threads.v[i]);
	free(qbench_ids);
	return cli_finish();
}
