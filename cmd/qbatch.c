/* SPDX-License-Identifier: ISC */
/* qbatch.c - read requests, write results, one per line. */
#include <sys/stat.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qbatch/qbatch.h"

static struct {
	const char	*input;			/* NULL: stdin */
	const char	*output;		/* NULL: stdout */
	const char	*report, *report_json;
	const char	*of;			/* with --merge: the input */
	int		 merge, status, plan, resume, retry, retry_cut;
	char		**files;
	int		 n_files;
} opt;

enum { LOG_S = 60 };	/* seconds between progress lines in a log */

static struct qbatch_run run = {
	.work = { .n_sequences = TOOL_SEQUENCES,
	    .draft = { .mode = QWEN_DRAFT_AUTO } },
	.n_shards = 1, .with.service.max = SIZE_MAX,
};

/* --------------------------------------------------------- the command line */

static uint64_t
slurm(const char *name, int64_t min)
{
	const char *v = getenv(name);

	if (v == NULL)
		cli_usage("--shard slurm: %s is not set: run it as a task of a "
		    "Slurm array", name);
	return (uint64_t)cli_int(name, v, min, 1000000000);
}

/* Set the shard to the index of this task in its Slurm array. */
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

/* Parse "2/8", or "slurm": the task's place in its Slurm array. */
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

static const struct cli_opt options[] = {
	CLI_GROUP("requests and results:"),
	TOOL_OPT_MODEL(&run.work.path),
	CLI_STD('o', "output", "results", &opt.output, "output",
	    "write the results to this file instead of stdout"),
	CLI_FLAG(0, "resume", &opt.resume,
	    "keep the results in -o, and answer only requests without one"),
	CLI_FLAG(0, "retry-failed", &opt.retry,
	    "like --resume, and answer failed requests again"),
	CLI_FLAG(0, "retry-cut", &opt.retry_cut,
	    "like --resume, and answer again those cut by a token limit"),
	CLI_FLAG(0, "mixed", &run.mixed,
	    "keep or merge results of other models, options and requests"),
	CLI_FLAG(0, "unordered", &run.queue.unordered,
	    "write results as soon as they are ready, in any order"),
	CLI_CALL(0, "shard", "part", &run, parse_shard, "words slurm",
	    "answer only this part, as in 2/8, or that of the array task"),
	TOOL_OPT_STRICT(&run.unknown.strict),
	CLI_FLAG(0, "merge", &opt.merge,
	    "merge files of results, in the order of the requests"),
	CLI_FILE(0, "of", "input", &opt.of, "file",
	    "with --merge: the requests, to report those without a result"),
	CLI_FLAG(0, "status", &opt.status,
	    "count requests done, failed and left; the last file is the input"),
	CLI_FLAG(0, "plan", &opt.plan,
	    "answer nothing: print tokens to read and write, and the time"),

	CLI_GROUP("what is generated:"),
	TOOL_OPT_SERVICE(&run.with),
	TOOL_OPT_IMAGE_ENCODER(&run.images.how),
	TOOL_OPT_IMAGE_DIR(&run.images.dir),
	TOOL_OPT_IMAGE_FOLDER(&run.images.how),
	TOOL_OPT_GRAMMAR(&run.with.grammar),
	TOOL_OPT_IGNORE_EOS(&run.with.ignore_eos),
	TOOL_OPT_MASK_UNUSED(&run.with.mask_unused),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),
	TOOL_OPT_DRAFT(&run.work.draft),
	TOOL_OPT_WORK(&run.work),

	CLI_GROUP("measuring:"),
	CLI_FILE(0, "report", "file", &opt.report, "output",
	    "write times and rates of the requests to this file, as text"),
	CLI_FILE(0, "report-json", "file", &opt.report_json, "output",
	    "write times and rates of the requests to this file, as JSON"),
	CLI_CALL(0, "goodput", "goals", &run.report.goals, tool_goals_parse,
	    NULL, "in reports, count requests within these ms, as in "
	    "ttft:500,tpot:50,e2e:5000"),
	CLI_REAL(0, "arrivals", "rate", &run.arrivals, 1e-6, 1e9,
	    "let requests arrive at random, this many per second on average"),
	TOOL_OPT_SAMPLING(&run.with.sampler),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qbatch",
	.about = "answer many prompts, one per line, in one process",
	.usage = "[options] [file]\n--plan [options] [file]\n--merge [-o results] [--of input] file ...\n"
	    "--status results ... input",
	/* an input of --merge may also be its output */
	.options = options, .max = -1, .completes = "inout",
};

static int
same(const char *a, const char *b)
{
	return a != NULL && b != NULL && strcmp(a, "-") != 0 &&
	    strcmp(a, b) == 0;
}

/* Check the name of a report, which is opened only at the end. */
static void
check_report(const char *option, const char *path)
{
	size_t n = path == NULL ? 1 : strlen(path);

	if (n == 0 || (path != NULL && path[n - 1] == '/'))
		cli_usage("%s: '%s' is not the name of a file", option, path);
	if (same(path, opt.output) || (path == opt.report &&
	    same(path, opt.report_json)))
		cli_usage("%s: two outputs name the file %s", option, path);
}

/* Return 1 if -o may hold results of an earlier run. */
static int
resumes(void)
{
	return opt.resume || opt.retry || opt.retry_cut;
}

static void
check_options(void)
{
	check_report("--report", opt.report);
	check_report("--report-json", opt.report_json);
	if (opt.merge && opt.n_files == 0)
		cli_usage("--merge needs the files to merge");
	if (opt.status && opt.n_files < 2)
		cli_usage("--status needs files of results, and the input");
	if (opt.merge + opt.status + opt.plan > 1)
		cli_usage("--merge, --status and --plan exclude each other");
	if (opt.of != NULL && !opt.merge)
		cli_usage("--of has no effect without --merge");
	if (opt.merge || opt.status)
		return;
	if (opt.n_files > 1)
		cli_usage("unexpected argument: %s", opt.files[1]);
	if (opt.n_files == 1 && strcmp(opt.files[0], "-") != 0)
		opt.input = opt.files[0];
	if (resumes() && opt.output == NULL)
		cli_usage("%s needs -o, the file with the results", opt.resume ?
		    "--resume" : opt.retry ? "--retry-failed" : "--retry-cut");
	tool_store_from_env(&run.work.at);
	tool_image_folder(&run.images.how, &run.work.at);
	run.images.how.no_rows = opt.plan;
	tool_draft_check(&run.work.draft);
	if (opt.input == NULL)
		cli_need_stdin();
}

/* -------------------------------------------------------- before and after */

static void
open_model(struct qbatch_run *b)
{
	struct qwen_service *s = &b->with.service;
	char *images;

	tool_work_open_model(&b->work);
	tool_header_init(&b->header, QWEN_STREAM_LOGITS, b->work.model);
	s->tok = b->work.tok;
	s->spell = b->work.spell;
	s->unknown = &b->unknown;
	tool_service_open(&b->with, b->work.gguf, &b->header);
	b->with.service.n_ctx = qwen_model_n_ctx(b->work.model);
	b->images.how.model = tool_model_path_stream(b->work.path);
	b->images.how.n_threads = b->work.n_threads;
	images = qbatch_images_open(&b->images, &b->with);
	qbatch_self_open(&b->self, &b->with, &b->header, images);
	free(images);
}

/* Return the number of items to do, for the progress line; 0 if unknown. */
static uint64_t
count_items(const struct qbatch_run *b)
{
	uint64_t n, done = b->out.done.n;

	if (b->is_pipe || cli_quiet)
		return 0;
	n = tool_lines_count(b->in.fd);
	n = n / b->n_shards + (b->shard < n % b->n_shards);
	return n > done ? n - done : 0;
}

#define WAY_ON "give that model and these options, or another -o; --mixed " \
	"keeps such results"

/*
 * Check that existing results belong to this run.  If the input is not a pipe,
 * check also that they belong to this input, and find the form of the input.
 */
static void
check_results(struct qbatch_run *b)
{
	struct qbatch_survey s = { 0 };

	if (resumes()) {
		qbatch_results_read(&b->out, opt.retry, opt.retry_cut ?
		    &b->self.origin : NULL);
		if (!b->mixed)
			qbatch_index_check(&b->out.done, &b->self.origin,
			    WAY_ON);
	}
	if (!b->is_pipe) {
		qbatch_survey(&s, b->out.done.n > 0 ? &b->out.done : NULL,
		    &b->in);
		qbatch_survey_check(&s, b->out.name, b->in.name, b->mixed,
		    "another -o answers all, --mixed keeps their results");
		b->kind = s.kind;
		qbatch_survey_fini(&s);
	}
}

static void
open_input(struct qbatch_run *b)
{
	struct stat st;

	tool_lines_open(&b->in, opt.input);
	b->in.max = QBATCH_LINE_MAX;
	if (fstat(b->in.fd, &st) == -1)
		die("%s: %s", b->in.name, strerror(errno));
	b->is_pipe = !S_ISREG(st.st_mode);
}

/* -v: summarize the run on stderr. */
static void
report_run(const struct qbatch_run *b, const struct qwen_work_stats *st)
{
	double s = b->report.end - b->report.start;

	if (!cli_verbose)
		return;
	cli_note("%s in %.3f s, %llu of them failed, %llu were done before",
	    cli_count(b->queue.n_done, "item"), s,
	    cli_llu(b->work.n_failed), cli_llu(b->n_skipped));
	cli_note("%s generated, %.1f tok/s; of prompts %llu read, "
	    "%llu shared, %llu from the store", cli_count(st->chosen, "token"),
	    (double)st->chosen / s, cli_llu(st->read),
	    cli_llu(st->shared), cli_llu(st->stored));
	cli_note("passes: %llu in %.3f s; at most %s and %.1f MiB; %.2f%% of "
	    "the KV cache unused", cli_llu(st->n_passes),
	    st->pass_s,
	    cli_count(st->max_sequences, "sequence"),
	    (double)st->max_bytes / 0x1p20, 100 * st->wasted);
	cli_note("%s a sequence was preempted, %s read again",
	    cli_count(st->preempted, "time"), cli_count(st->again, "token"));
	tool_report_draft(&b->work.draft);
	tool_report_stats(b->work.model);
}

/*
 * Warn of failed answers and of those cut inside a grammar; the exit status is
 * then 3.
 */
static void
warn_unfinished(const struct qbatch_run *b, const struct qbatch_tally *before)
{
	uint64_t broken = b->report.sum.broken + before->broken;

	tool_warn_failed(&b->work, before->failed, b->queue.n_done +
	    b->n_skipped);
	if (b->work.n_failed == 0 && before->failed > 0)
		cli_warn_part("%s failed in an earlier run; --retry-failed "
		    "answers them again", cli_count(before->failed, "item"));
	if (broken > 0)
		cli_warn_part(QBATCH_BROKEN, cli_count(broken, "answer"));
}

/* A run without -o ends with a summary if it took longer than this. */
static const double short_s = 2;

static void
finish(struct qbatch_run *b)
{
	uint64_t unmet = b->out.done.n - b->n_skipped;
	struct qbatch_tally before;
	struct qwen_work_stats st;

	qwen_work_stats(b->work.work, &st);
	qbatch_index_count(&b->out.done, &before);
	cli_progress_keep();
	qbatch_results_close(&b->out);
	if (opt.report != NULL)
		qbatch_report_write(&b->report, &st, opt.report, 0);
	if (opt.report_json != NULL)
		qbatch_report_write(&b->report, &st, opt.report_json, 1);
	report_run(b, &st);
	tool_report_unknown(&b->unknown);
	tool_report_notes(&b->unknown);
	if (b->out.regular || b->report.end - b->report.start > short_s)
		qbatch_report_print(&b->report, &before);
	warn_unfinished(b, &before);
	/*
	 * qbatch_survey_check has checked regular files; a file of one shard
	 * may hold the merged results of several shards
	 */
	if (b->is_pipe && b->n_shards == 1 && unmet > 0)
		die("%s: %s without a line of the input: they are of another "
		    "input", b->out.name, cli_count(unmet, "result"));
}

/* Do --plan.  Return the exit status. */
static int
plan(void)
{
	open_input(&run);
	if (resumes())
		qbatch_results_peek(&run.out, opt.output);
	check_results(&run);
	cli_progress_start("requests", 0);
	qbatch_plan(&run);
	return cli_finish();
}

int
main(int argc, char *argv[])
{
	const char *name = argv[0];
	int status;

	qbatch_command_keep(argc, argv);
	opt.n_files = cli_begin(&tool, argc, argv);
	opt.files = argv + 1;
	tool_sampling_check(run.with.sampler);
	tool_report_seed(run.with.sampler);
	check_options();
	if (opt.merge)
		qbatch_merge(opt.files, opt.n_files, opt.output, opt.of,
		    run.mixed);
	if (opt.status)
		qbatch_status(opt.files, opt.n_files);
	if (opt.merge || opt.status)
		return cli_finish();
	tool_grammar_open(&run.with.grammar, run.with.sampler);
	open_model(&run);
	if (opt.plan)
		return plan();
	tool_draft_open(&run.work.draft, run.work.model);
	tool_work_open(&run.work);
	open_input(&run);
	run.seed = qwen_sampler_seed(run.with.sampler);
	qbatch_results_open(&run.out, opt.output, resumes());
	check_results(&run);
	qbatch_results_begin(&run.out);
	if (run.out.regular && !cli_quiet)
		qbatch_interrupt_watch(name, resumes(), run.work.path == NULL ?
		    getenv("QWEN_MODEL") : NULL, opt.input == NULL);
	run.report.wanted = opt.report != NULL || opt.report_json != NULL;
	cli_progress_start("items", count_items(&run));
	cli_progress_log(LOG_S);
	qbatch_answer_all(&run);
	finish(&run);
	status = cli_finish();
	tool_work_close(&run.work);
	return status;
}
