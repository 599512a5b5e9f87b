/* SPDX-License-Identifier: ISC */
/* qbatch.c - requests in, one a line; results out, one a line. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"
#include "tool/tool.h"
#include "qbatch/qbatch.h"

enum { DEFAULT_SEQUENCES = 32 };

static struct {
	const char	*model;
	const char	*input;			/* NULL: stdin */
	const char	*output;		/* NULL: stdout */
	const char	*report, *report_json;
	struct tool_store store;
	const char	*template;		/* NULL: the model's */
	uint64_t	 mem;
	size_t		 n_sequences, n_pass;
	int		 n_threads;
	unsigned	 numerics;		/* 0: the usual version */
	int		 ignore_eos, mask_unused, merge, resume;
	char		**files;
	int		 n_files;
} opt = { .n_sequences = DEFAULT_SEQUENCES };

struct run {
	struct qbatch_run	 batch;
	struct qwen_sampler	*sampler;
	struct tool_grammar	 grammar;
	struct qwen_grammars	 grammars;
	struct qwen_model	*model;
	struct qwen_tok		*tok;
	struct qwen_template	*template;
	struct qwen_pieces	*pieces;
	struct qwen_cache	*cache;
	struct qwen_store	*store;
	struct qwen_header	 header;	/* has the endings */
	struct qwen_sampler	*base;		/* what requests begin with */
	struct qwen_str		*stop;
};

static struct run run;

/* --------------------------------------------------------- the command line */

static uint64_t
slurm(const char *name, int64_t min)
{
	const char *v = getenv(name);

	if (v == NULL)
		cli_usage("--shard slurm: %s is not set: this is no task of an "
		    "array", name);
	return (uint64_t)cli_int(name, v, min, 1000000000);
}

/* The place of this task among those of its array. */
static void
parse_slurm(struct qbatch_run *b)
{
	uint64_t id = slurm("SLURM_ARRAY_TASK_ID", 0);
	uint64_t min = slurm("SLURM_ARRAY_TASK_MIN", 0);
	uint64_t step = getenv("SLURM_ARRAY_TASK_STEP") == NULL ? 1 :
	    slurm("SLURM_ARRAY_TASK_STEP", 1);

	b->n_shards = slurm("SLURM_ARRAY_TASK_COUNT", 1);
	if (id < min || (id - min) % step != 0 ||
	    (id - min) / step >= b->n_shards)
		cli_usage("--shard slurm: the ids of the tasks are not evenly "
		    "spaced");
	b->shard = (id - min) / step;
}

/* "2/8", or what Slurm says of this task. */
static void
parse_shard(const struct cli_opt *o, const char *s)
{
	struct qbatch_run *b = o->to;
	const char *slash = strchr(s, '/');
	char first[32];

	if (strcmp(s, "slurm") == 0) {
		parse_slurm(b);
		return;
	}
	if (slash == NULL || (size_t)(slash - s) >= sizeof first)
		cli_usage("--shard: '%s' is neither like 2/8 nor slurm", s);
	memcpy(first, s, (size_t)(slash - s));
	first[slash - s] = '\0';
	b->n_shards = (uint64_t)cli_int("--shard", slash + 1, 1, 1000000);
	b->shard = (uint64_t)cli_int("--shard", first, 1,
	    (int64_t)b->n_shards) - 1;
}

static void
parse_goals(const struct cli_opt *o, const char *s)
{
	qbatch_goals_parse(o->to, s);
}

static const struct cli_opt options[] = {
	CLI_GROUP("requests and results:"),
	CLI_OPT_MODEL(&opt.model),
	CLI_STD('o', "output", "results", &opt.output,
	    "write the results here, not to stdout"),
	CLI_FLAG(0, "resume", &opt.resume,
	    "go on where the results of -o end"),
	CLI_FLAG(0, "unordered", &run.batch.unordered,
	    "results as they are ready, in any order"),
	CLI_CALL(0, "shard", "part", &run.batch, parse_shard, "words slurm",
	    "only this part of the requests, as in 2/8, or what Slurm says"),
	CLI_FLAG(0, "merge", &opt.merge,
	    "put the results of all parts together, in order"),

	CLI_GROUP("what is generated:"),
	CLI_INT('n', "count", "count", &run.batch.service.max, 1, INT64_MAX,
	    "at most so many tokens, unless a request says"),
	CLI_OPT_TEMPLATE(&opt.template),
	CLI_OPT_SPECIAL(&run.batch.service.encode),
	TOOL_OPT_GRAMMAR(&run.grammar),
	TOOL_OPT_IGNORE_EOS(&opt.ignore_eos),
	TOOL_OPT_MASK_UNUSED(&opt.mask_unused),

	CLI_GROUP("how it runs:"),
	CLI_OPT_THREADS(&opt.n_threads),
	TOOL_OPT_NUMERICS(&opt.numerics),
	TOOL_OPT_MEM(&opt.mem),
	TOOL_OPT_SEQUENCES(&opt.n_sequences),
	TOOL_OPT_BATCH(&opt.n_pass),
	TOOL_OPT_STORE(&opt.store),

	CLI_GROUP("measuring:"),
	CLI_FILE(0, "report", "file", &opt.report, "file",
	    "write there how fast it was, for people"),
	CLI_FILE(0, "report-json", "file", &opt.report_json, "file",
	    "write there how fast it was, as JSON"),
	CLI_CALL(0, "goodput", "goals", &run.batch.report.goals, parse_goals,
	    NULL, "in reports, count those that meet ttft:500,tpot:50,e2e:5000 "
	    "(ms)"),
	CLI_REAL(0, "arrivals", "rate", &run.batch.arrivals, 1e-6, 1e9,
	    "requests come at random, so many a second on average"),
	TOOL_OPT_SAMPLING(&run.sampler),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qbatch",
	.about = "answer many prompts, one a line, in one process",
	.usage = "[options] [file]\n--merge [-o results] file ...",
	.options = options, .max = -1,
};

static void
check_options(void)
{
	if (opt.merge) {
		if (opt.n_files == 0)
			cli_usage("--merge: no files to put together");
		return;
	}
	if (opt.n_files > 1)
		cli_usage("unexpected argument: %s", opt.files[1]);
	if (opt.n_files == 1 && strcmp(opt.files[0], "-") != 0)
		opt.input = opt.files[0];
	if (opt.resume && opt.output == NULL)
		cli_usage("--resume needs -o, where the results are");
	tool_store_choose(&opt.store);
	if (opt.input == NULL)
		cli_need_stdin();
}

static void
parse(int argc, char *argv[], struct run *r)
{
	r->batch.service.max = SIZE_MAX;
	r->batch.n_shards = 1;
	opt.n_files = cli_begin(&tool, argc, argv);
	opt.files = argv + 1;
	tool_sampling_check(r->sampler);
	check_options();
	if (!opt.merge)
		tool_grammar_open(&r->grammar, r->sampler);
}

/* -------------------------------------------------------- before and after */

static const char *
base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* By name, from a file, or the model's own, which it may not have. */
static void
open_template(struct run *r)
{
	static struct qwen_err err;

	if (opt.template != NULL)
		r->template = tool_template(opt.template);
	else if (qwen_template_open_gguf(&r->template,
	    qwen_model_gguf(r->model), &err) < 0) {
		if (err.code == QWEN_ENOMEM)
			cli_die_err(NULL, &err);
		r->batch.service.no_template = err.msg;
	}
	r->batch.service.template = r->template;
}

/*
 * What all requests begin with.  Where an answer is to stop the text tells, so
 * the sampler need not look for it.
 */
static void
open_sampler(struct run *r, const struct qwen_gguf *g)
{
	struct qwen_service *s = &r->batch.service;
	struct qwen_grammars *all = &r->grammars;
	struct qwen_err err;
	const char *text;
	size_t n;

	for (n = 0; qwen_sampler_text(r->sampler, "stop", n) != NULL; n++)
		;
	if ((r->stop = calloc(n + 1, sizeof *r->stop)) == NULL)
		die("out of memory");
	for (n = 0; (text = qwen_sampler_text(r->sampler, "stop",
	    n)) != NULL; n++)
		r->stop[n] = (struct qwen_str){ text, strlen(text) };
	s->stop = r->stop;
	s->n_stop = n;
	s->min = (size_t)qwen_sampler_number(r->sampler, "min-tokens");
	s->grammars = all;
	if (qwen_sampler_copy(&r->base, r->sampler, &err) < 0 ||
	    qwen_sampler_eog(r->base, r->header.eog, r->header.n_eog,
	    &err) < 0)
		cli_die_err(NULL, &err);
	qwen_sampler_reset(r->base, "stop");
	if (opt.mask_unused)
		tool_mask_unused(r->base, g);
	all->gguf = g;
	all->pieces = r->pieces = tool_sampling_pieces(r->base, g);
	if (r->grammar.grammar != NULL) {
		if (qwen_grammars_prepare(all, &err) < 0)
			cli_die_err(qwen_gguf_path(g, 0), &err);
		qwen_sampler_constrain(r->base, qwen_grammar_constraint(
		    r->grammar.grammar, all->trie));
	}
	r->batch.sampler = r->base;
}

static void
open_model(struct run *r)
{
	struct qbatch_run *b = &r->batch;
	struct qwen_service *s = &b->service;
	const struct qwen_gguf *g;
	struct qwen_err err;

	r->model = tool_model_open(opt.model, opt.n_threads, opt.numerics);
	tool_tell_model(r->model);
	g = qwen_model_gguf(r->model);
	tool_header(&r->header, QWEN_STREAM_LOGITS, r->model);
	if (qwen_tok_open(&r->tok, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &err) < 0 || qwen_tok_decoder_new(&s->spell, r->tok,
	    QWEN_TOK_BYTES | QWEN_TOK_SHOW_SPECIAL, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	s->tok = r->tok;
	s->n_vocab = qwen_model_n_vocab(r->model);
	s->model = base_name(qwen_gguf_path(g, 0));
	open_template(r);
	open_sampler(r, g);
	b->ending = r->header.eog;
	b->n_ending = opt.ignore_eos ? 0 : r->header.n_eog;
}

static void
open_work(struct run *r)
{
	struct qwen_work_opts o = {
		.model = r->model, .n_sequences = opt.n_sequences,
		.n_pass = opt.n_pass,
	};
	struct qwen_err err;

	r->cache = tool_cache_new(r->model, opt.mem,
	    opt.n_sequences);
	r->store = tool_store_open(&opt.store);
	o.cache = r->cache;
	o.store = r->store;
	if (qwen_work_new(&r->batch.work, &o, &err) < 0)
		cli_die_err(NULL, &err);
	/* enough to find what several begin with, and for slow ones */
	r->batch.n_ahead = 16 * opt.n_sequences + 64;
}

/* How many items there are to do, for the progress line; 0: nobody knows. */
static uint64_t
count_items(const struct qbatch_run *b)
{
	uint64_t n, done = b->out.done.n;

	if (b->waits || cli_quiet || !isatty(STDERR_FILENO))
		return 0;
	n = cli_lines_count(b->in.fd);
	n = n / b->n_shards + (b->shard < n % b->n_shards);
	return n > done ? n - done : 0;
}

static void
open_files(struct run *r)
{
	struct qbatch_run *b = &r->batch;
	struct stat st;

	b->in.name = opt.input != NULL ? opt.input : "stdin";
	b->in.fd = opt.input == NULL ? STDIN_FILENO :
	    open(opt.input, O_RDONLY | O_CLOEXEC);
	if (b->in.fd == -1 || fstat(b->in.fd, &st) == -1)
		die("%s: %s", b->in.name, strerror(errno));
	b->waits = !S_ISREG(st.st_mode);
	b->seed = qwen_sampler_seed(r->sampler);
	qbatch_results_open(&b->out, opt.output, opt.resume);
}

/* -v: what came of it. */
static void
tell(const struct run *r, const struct qwen_work_stats *st)
{
	const struct qbatch_run *b = &r->batch;
	double s = b->report.end - b->report.start;

	if (!cli_verbose)
		return;
	cli_note("%llu items in %.3f s, %llu of them failed, %llu were there "
	    "before", (unsigned long long)b->n_done, s,
	    (unsigned long long)b->n_failed, (unsigned long long)b->n_skipped);
	cli_note("%llu tokens generated, %.1f tok/s; of prompts %llu read, "
	    "%llu shared, %llu from the store", (unsigned long long)st->chosen,
	    (double)st->chosen / s, (unsigned long long)st->read,
	    (unsigned long long)st->shared, (unsigned long long)st->stored);
	cli_note("%llu passes, %.3f s; at most %llu sequences and %.1f MiB; "
	    "%.2f%% of the KV cache held nothing",
	    (unsigned long long)st->n_passes, st->pass_s,
	    (unsigned long long)st->max_sequences,
	    (double)st->max_bytes / 0x1p20, 100 * st->wasted);
	cli_note("%llu times a sequence made room, %llu tokens read again",
	    (unsigned long long)st->preempted, (unsigned long long)st->again);
	tool_tell_stats(r->model);
}

static void
finish(struct run *r)
{
	struct qbatch_run *b = &r->batch;
	struct qwen_work_stats st;
	uint64_t failed = b->n_failed + b->out.n_errors;

	qwen_work_stats(b->work, &st);
	cli_progress_end();
	qbatch_results_close(&b->out);
	if (opt.report != NULL)
		qbatch_report_write(&b->report, &st, opt.report, 0);
	if (opt.report_json != NULL)
		qbatch_report_write(&b->report, &st, opt.report_json, 1);
	tell(r, &st);
	if (b->n_failed > 0)
		cli_warn("%llu of %llu items failed; the first, line %llu: %s",
		    (unsigned long long)failed,
		    (unsigned long long)(b->n_done + b->n_skipped),
		    (unsigned long long)b->failed_line, b->failed);
	else if (failed > 0)
		cli_warn("%llu items failed in an earlier run",
		    (unsigned long long)failed);
}

static void
free_all(struct run *r)
{
	qwen_work_free(r->batch.work);
	qbatch_fini(&r->batch);
	qwen_store_close(r->store);
	qwen_cache_free(r->cache);
	qwen_tok_decoder_free(r->batch.service.spell);
	qwen_template_close(r->template);
	qwen_grammars_fini(&r->grammars);
	tool_grammar_close(&r->grammar);
	qwen_pieces_close(r->pieces);
	qwen_tok_close(r->tok);
	qwen_sampler_free(r->sampler);
	qwen_sampler_free(r->base);
	free(r->stop);
	qwen_model_close(r->model);
}

int
main(int argc, char *argv[])
{
	int status;

	parse(argc, argv, &run);
	if (opt.merge) {
		qbatch_merge(opt.files, opt.n_files, opt.output);
		qwen_sampler_free(run.sampler);
		return cli_finish();
	}
	open_model(&run);
	open_work(&run);
	open_files(&run);
	run.batch.report.wanted = opt.report != NULL || opt.report_json != NULL;
	cli_progress_start("items", count_items(&run.batch));
	qbatch_answer_all(&run.batch);
	finish(&run);
	status = cli_finish();
	free_all(&run);
	return status;
}
