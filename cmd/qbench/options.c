/* SPDX-License-Identifier: ISC */
/* options.c - the command line. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "url.h"

enum { MAX_CLIENTS = 65536 };

struct qbench_opts qbench_opt = {
	.synth = { .seed = 1, .no_mtp = 1 },
	.prompt = { 1, { 512 } }, .threads = { 1, { 0 } },
	.depth = { 1, { 0 } }, .batch = { 1, { 0 } },
	.sequences = { 1, { 1 } }, .count = { 1, { 64 } },
	.rounds = 5,
};

struct qbench_url_opts qbench_url = {
	.clients = { 1, { 1 } }, .warmup = 1,
};

/*
 * Copy the next value of a list with commas to one and move *s past it; *s is
 * NULL after the last value.  n values came before.  Return 0 if there is no
 * more value.
 */
static int
next_value(const struct cli_opt *o, size_t n, const char **s, char one[32])
{
	size_t len;

	if (*s == NULL)
		return 0;
	if (n == QBENCH_MAX_LIST)
		cli_usage("%s: more than %d values", cli_opt_name(o),
		    QBENCH_MAX_LIST);
	len = strcspn(*s, ",");
	if (len >= 32)
		cli_usage("%s: '%s' is too long", cli_opt_name(o), *s);
	memcpy(one, *s, len);
	one[len] = '\0';
	*s = (*s)[len] == ',' ? *s + len + 1 : NULL;
	return 1;
}

static void
parse_list(const struct cli_opt *o, const char *s)
{
	struct qbench_list *l = o->to;
	char one[32];

	for (l->n = 0; next_value(o, l->n, &s, one);)
		l->v[l->n++] = (size_t)cli_int(cli_opt_name(o), one, o->min,
		    o->max);
}

static void
parse_reals(const struct cli_opt *o, const char *s)
{
	struct qbench_reals *l = o->to;
	char one[32];

	for (l->n = 0; next_value(o, l->n, &s, one);)
		l->v[l->n++] = cli_double(cli_opt_name(o), one, o->low,
		    o->high);
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
	for (l->n = 0; next_value(o, l->n, &s, one);)
		add_draft(l, one);
}

#define LIST(l, n, a, p, lo, hi, h) { CLI_ROW(CALL, l, n, a, p, h), \
	.call = parse_list, .min = (lo), .max = (hi) }
#define REALS(n, a, p, lo, hi, h) { CLI_ROW(CALL, 0, n, a, p, h), \
	.call = parse_reals, .low = (lo), .high = (hi) }

static const struct cli_opt url_options[] = {
	CLI_GROUP("server under load (-p and -n apply to each request):"),
	CLI_TEXT(0, "url", "url", &qbench_url.url,
	    "send requests to this server: http://127.0.0.1:8080 or unix:PATH"),
	CLI_WORD(0, "api", "name", &qbench_url.api, "chat completions",
	    "API to call (default chat)"),
	LIST(0, "clients", "n", &qbench_url.clients, 1, MAX_CLIENTS,
	    "requests at the same time; with --rate the limit; a list (default "
	    "1)"),
	REALS("rate", "r", &qbench_url.rate, 1e-3, 1e6,
	    "send R requests per second, at random times; a list"),
	CLI_INT(0, "requests", "n", &qbench_url.requests, 1, INT64_MAX,
	    "requests per setting (default 4 per client, or 32)"),
	CLI_REAL(0, "seconds", "s", &qbench_url.seconds, 1e-3, 1e9,
	    "stop sending after this many seconds"),
	CLI_INT(0, "warmup", "n", &qbench_url.warmup, 0, 1000000,
	    "requests sent first, and not measured (default 1)"),
	CLI_REAL(0, "timeout", "s", &qbench_url.timeout, 1e-3, 1e6,
	    "count a request as failed after this many seconds"),
	CLI_INT(0, "prefix", "tokens", &qbench_url.prefix, 0, QBENCH_MAX_TOKENS,
	    "tokens of -p that are the same in all prompts"),
	CLI_U64(0, "seed", "number", &qbench_url.seed,
	    "seed of prompts and times (default the clock)"),
	CLI_FILE(0, "input", "file", &qbench_url.input, "file",
	    "send the requests of this file (as for qbatch), over and over"),
	CLI_TEXT(0, "body", "json", &qbench_url.body,
	    "JSON fields to add to every request, as {\"temperature\":0}"),
	CLI_CALL(0, "goodput", "goals", &qbench_url.goals, tool_goals_parse,
	    NULL, "count requests within these ms, as in "
	    "ttft:500,tpot:50,e2e:5000"),
	CLI_END,
};

static const struct cli_opt *
url_rows(void *to)
{
	(void)to;
	return url_options;
}

static const struct cli_opt options[] = {
	CLI_GROUP("measurement (a list with commas measures each value):"),
	TOOL_OPT_MODEL(&qbench_opt.model),
	LIST('p', "prompt", "tokens", &qbench_opt.prompt, 0,
	    QBENCH_MAX_TOKENS, "prompt tokens to read; a list (default 512)"),
	LIST('n', "count", "count", &qbench_opt.count, 0,
	    QBENCH_MAX_TOKENS, "tokens to generate (default 64)"),
	LIST(0, "depth", "tokens", &qbench_opt.depth, 0,
	    QBENCH_MAX_TOKENS,
	    "tokens already in the context; a list (default 0)"),
	LIST(0, "sequences", "n", &qbench_opt.sequences, 1,
	    QBENCH_MAX_SEQUENCES,
	    "sequences at the same time; a list (default 1)"),
	LIST(0, "batch", "n", &qbench_opt.batch, 0, 1 << 20,
	    "tokens per pass; a list"),
	LIST('t', "threads", "threads", &qbench_opt.threads, 0, 1024,
	    "threads; 0: one per processor or core; a list (default 0)"),
	CLI_INT('r', "rounds", "rounds", &qbench_opt.rounds, 1,
	    QBENCH_MAX_ROUNDS,
	    "number of measurements of each setting (default 5)"),
	CLI_FILE(0, "tokens", "file", &qbench_opt.tokens, "file",
	    "use the tokens of this stream instead of random ones"),
	TOOL_OPT_NUMERICS(&qbench_opt.numerics),
	TOOL_OPT_DEVICE,
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
	REALS("accept", "p", &qbench_opt.accept, 0, 1,
	    "simulate that drafts are right with probability P; a list"),
	CLI_U64(0, "since", "time", &qbench_opt.since,
	    "measure the time from TIME to the first token of a process"),

	CLI_ROWS(NULL, url_rows),

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

static int
has_zero(const struct qbench_list *l)
{
	size_t i;

	for (i = 0; i < l->n && l->v[i] > 0; i++)
		;
	return i < l->n;
}

/* The targets of options that --input excludes, and those of both kinds. */
static const void *const made[] = { &qbench_url.api, &qbench_url.prefix,
    &qbench_opt.prompt, &qbench_opt.count };
static const void *const both[] = { &qbench_opt.prompt, &qbench_opt.count,
    &qbench_opt.json, &qbench_opt.csv };

static int
is_among(const void *to, const void *const list[4])
{
	return to == list[0] || to == list[1] || to == list[2] ||
	    to == list[3];
}

/*
 * Exit with a usage error for options of --url without it, and with it for
 * those that measure in this process.
 */
static void
check_rows(const struct cli_opt *row, int of_url)
{
	const struct qbench_url_opts *o = &qbench_url;

	for (; row->kind != CLI_KIND_END; row++) {
		if (row->to == NULL || !cli_given(row->to))
			continue;
		if (of_url && o->url == NULL)
			cli_usage("%s needs --url", cli_opt_name(row));
		if (!of_url && o->url != NULL && !is_among(row->to, both))
			cli_usage("%s measures a model in this process: not "
			    "with --url", cli_opt_name(row));
		if (o->input != NULL && is_among(row->to, made))
			cli_usage("--input and %s exclude each other",
			    cli_opt_name(row));
	}
}

static void
check_url(struct qbench_url_opts *o)
{
	struct timespec now;

	if (has_zero(&qbench_opt.prompt))
		cli_usage("-p 0: nothing to ask");
	if (has_zero(&qbench_opt.count))
		cli_usage("-n 0: nothing to answer");
	if (!cli_given(&o->seed)) {
		clock_gettime(CLOCK_REALTIME, &now);
		o->seed = (uint64_t)now.tv_sec * 1000 +
		    (uint64_t)now.tv_nsec / 1000000;
	}
}

static void
check_options(void)
{
	const struct qbench_opts *o = &qbench_opt;

	if (qbench_longest(&o->prompt) == 0 && o->n == 0)
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
qbench_options(int argc, char *argv[])
{
	struct qbench_opts *o = &qbench_opt;

	cli_begin(&tool, argc, argv);
	if (o->json && o->csv)
		cli_usage("--json and --csv exclude each other");
	check_rows(url_options, 1);
	check_rows(options, 0);
	if (qbench_url.url != NULL) {
		check_url(&qbench_url);
		return 1;
	}
	if (o->count.n > 1)
		cli_usage("-n: a list needs --url");
	o->n = o->count.v[0];
	o->has_drafts = cli_given(&o->draft) > 0;
	check_options();
	check_drafts(o);
	return 0;
}
