/* SPDX-License-Identifier: ISC */
/* qprefill.c - read tokens; write the model's state after them, and logits. */
#include <sys/stat.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qprefill/qprefill.h"
#include "quantize/quantize.h"

enum { EVERY_MAX = 1000000000 };

static struct {
	const char		*model;
	const char		*output;	/* NULL: stdout */
	const char		*imatrix;	/* NULL: none */
	int			 format;	/* enum qwen_format, or
						   QPREFILL_NPY, _NPZ */
	enum qwen_logits	 logits;
	size_t			 top;		/* best logits per row; 0:
						   all */
	size_t			 batch;
	int			 n_threads;
	unsigned		 numerics;	/* 0: the default version */
	struct qwen_checkpoints	 keep;
	uint64_t		*named;		/* the array of keep.at */
	size_t			 cap;
	struct tool_reuse	 reuse;
	struct qprefill_trace	 trace;
	struct qwen_state_opts	 state;
	double			 every;		/* seconds between saves; -1:
						   never */
	struct tool_draft	 draft;
} opt = { .logits = QWEN_LOGITS_NONE, .every = -1, .draft = { .mode = QWEN_DRAFT_AUTO } };

static struct tool_intake intake;

static void
add_named(uint64_t at)
{
	size_t n = opt.keep.n_at;

	cli_grow(&opt.named, &opt.cap, n + 1, sizeof *opt.named);
	opt.named[n] = at;
	opt.keep.n_at = n + 1;
}

/* Parse the list of --checkpoint-at: "100" or "100,250". */
static void
parse_positions(const struct cli_opt *o, const char *s)
{
	char word[24];

	while (cli_next_word(&s, word, sizeof word))
		add_named((uint64_t)cli_int(cli_opt_name(o), word, 1,
		    INT64_MAX));
}

static const struct cli_opt options[] = {
	CLI_GROUP("tokens and states:"),
	TOOL_OPT_MODEL(&opt.model),
	CLI_STD('s', "state", "state", &intake.state, "inout",
	    "continue from the state in this file"),
	CLI_STD('o', "output", "state", &opt.output, "output",
	    "write the state to this file instead of stdout"),
	CLI_WORD(0, "logits", "which", &opt.logits, "last all none",
	    "also write logits, of these tokens"),
	CLI_INT(0, "top", "n", &opt.top, 1, QWEN_VOCAB_MAX,
	    "write only the N best of each row of logits"),
	CLI_OPT_FORMAT(&opt.format, "cbor text json raw npy npz",
	    "format of logits and traces"),
	CLI_FILE(0, "imatrix", "file", &opt.imatrix, "output gguf",
	    "write an importance matrix to this file"),

	CLI_TEXT(0, "trace", "stages", &opt.trace.stages,
	    "write what these stages compute, as in *.ffn,*.router.experts"),
	CLI_CALL(0, "trace-at", "list", &opt.trace, qprefill_trace_at, NULL,
	    "trace only these positions, as in 0,5,10-20,last"),
	CLI_STD(0, "trace-out", "file", &opt.trace.out, "output",
	    "write the trace to this file instead of stdout"),

	CLI_GROUP("reuse:"),
	CLI_LIST(0, "reuse", "state", &opt.reuse.states, "inout",
	    "continue from the longest common prefix with this state; "
	    "repeatable"),
	TOOL_OPT_STORE(&opt.reuse.store),
	CLI_CALL(0, "checkpoint-at", "list", &opt.named, parse_positions, NULL,
	    "checkpoints after these numbers of tokens, as in 100,250"),
	CLI_INT(0, "checkpoint-every", "n", &opt.keep.every, 0, INT64_MAX,
	    "a checkpoint every N tokens; 0: none"),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_COMPUTE(&opt),
	TOOL_OPT_LORA,
	TOOL_OPT_ROPE,
	TOOL_OPT_BATCH(&opt.batch),
	CLI_CALL(0, "draft", "how", &opt.draft, tool_draft_parse,
	    "words auto mtp none",
	    "prepare for these drafts, or a file with the MTP block"),
	CLI_REAL(0, "save-every", "seconds", &opt.every, 0, EVERY_MAX,
	    "save to -o at this interval, and at Ctrl-C"),
	TOOL_OPT_NO_COMPRESS(&opt.state),
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qprefill", .usage = "[options]", .options = options,
	.about = "compute the model's state after a prompt",
};

/* Return 1 if a trace goes to stdout. */
static int
trace_is_stdout(void)
{
	return opt.trace.stages != NULL && opt.trace.out == NULL;
}

/* Return 1 if the state goes to stdout too: -o is "-" or the same file. */
static int
output_is_stdout(void)
{
	struct stat a, b;

	if (opt.output == NULL)
		return cli_given(&opt.output);
	/* a terminal and /dev/null may get both */
	return stat(opt.output, &a) == 0 && fstat(STDOUT_FILENO, &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino && !S_ISCHR(a.st_mode);
}

/* Check that only one output goes to stdout, in a form that it can have. */
static void
check_trace(const struct tool_intake *in)
{
	const struct qprefill_trace *t = &opt.trace;

	if (t->stages == NULL) {
		if (t->out != NULL || t->n_range > 0)
			cli_usage("--trace-%s needs --trace", t->out !=
			    NULL ? "out" : "at");
		if (opt.format == QPREFILL_NPZ)
			cli_usage("-f npz is for traces only: add --trace; for "
			    "logits use -f npy");
		return;
	}
	if (in->whole)
		cli_usage("--trace needs to read all tokens: not with --reuse");
	if (opt.logits != QWEN_LOGITS_NONE && t->out == NULL)
		cli_usage("--trace and --logits both write to stdout; see "
		    "--trace-out");
	if (opt.logits != QWEN_LOGITS_NONE && opt.format == QPREFILL_NPZ)
		cli_usage("-f npz is for traces only: add the stage logits to "
		    "--trace");
	if (opt.format == QPREFILL_NPZ && t->out == NULL)
		cli_usage("-f npz needs a file: give --trace-out");
	if (opt.format == QWEN_FORMAT_RAW)
		cli_usage("-f raw is not for traces: use -f npy");
	if (trace_is_stdout() && output_is_stdout())
		cli_usage("--trace and -o both write to stdout; see "
		    "--trace-out");
}

/*
 * Check --save-every.  With the same file for -s and -o, a rerun could not tell
 * a save from the original state.
 */
static void
check_saves(const struct tool_intake *in)
{
	if (opt.every < 0)
		return;
	if (opt.output == NULL)
		cli_usage("--save-every needs -o, the file to save to");
	if (in->state != NULL && cli_same_file(in->state, opt.output))
		cli_usage("--save-every needs another file for -o than for -s, "
		    "to know after an interruption what was read");
}

static void
check_options(struct tool_intake *in)
{
	check_saves(in);
	tool_draft_check(&opt.draft);
	if (opt.draft.mode == QWEN_DRAFT_LOOKUP && cli_given(&opt.draft) > 0)
		cli_usage("--draft lookup needs nothing from a state: leave it "
		    "out");
	if (opt.draft.mode == QWEN_DRAFT_LOOKUP)
		opt.draft.mode = QWEN_DRAFT_NONE;	/* an alias of options
							   set it */
	tool_store_from_env(&opt.reuse.store);
	in->whole = opt.reuse.states.n > 0;
	if (in->whole && in->state != NULL)
		cli_usage("-s %s: not with --reuse, which takes the tokens on "
		    "stdin as the whole prompt", in->state);
	if (in->whole && opt.imatrix != NULL)
		cli_usage("--imatrix needs to read all tokens: not with "
		    "--reuse");
	if (in->whole && opt.logits == QWEN_LOGITS_ALL)
		cli_usage("--logits=all needs to read all tokens: not with "
		    "--reuse");
	if (opt.imatrix != NULL && strcmp(opt.imatrix, "-") == 0)
		cli_usage("--imatrix needs the name of a file");
	check_trace(in);
	if (opt.logits != QWEN_LOGITS_NONE && output_is_stdout())
		cli_usage("--logits and -o both write to stdout: give -o a file");
	if (opt.logits == QWEN_LOGITS_NONE) {
		if (opt.format == QWEN_FORMAT_RAW || opt.top > 0 ||
		    (opt.format == QPREFILL_NPY && opt.trace.stages == NULL))
			cli_usage("%s applies to %s: add --logits=last or "
			    "--logits=all", opt.top > 0 ? "--top" :
			    opt.format == QWEN_FORMAT_RAW ? "-f raw" : "-f npy",
			    opt.format == QPREFILL_NPY ? "logits and traces" :
			    "logits");
		if (opt.output == NULL && opt.trace.stages == NULL &&
		    opt.format != QWEN_FORMAT_CBOR)
			cli_usage("a state can be written only as cbor");
	}
	if ((opt.format == QWEN_FORMAT_RAW || opt.format == QPREFILL_NPY) &&
	    opt.top > 0)
		cli_usage("%s writes whole rows: --top needs another -f",
		    opt.format == QPREFILL_NPY ? "npy" : "raw");
}

/* Where write_row puts the rows of logits. */
struct row_sink {
	struct qwen_writer	*w;	/* NULL: .npy */
	size_t			 n_vocab;
	struct qprefill_array	 array;
	struct qwen_text	 text;
};

static int
write_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct row_sink *r = arg;
	int rc;

	if (r->w == NULL) {
		r->text.n = 0;
		qprefill_npy_row(&r->text, &r->array, logits, r->n_vocab);
		cli_write_all(STDOUT_FILENO, "stdout", &r->text);
		return 0;
	}
	rc = opt.top > 0 ?
	    qwen_write_top(r->w, pos, logits, r->n_vocab, opt.top, err) :
	    qwen_write_logits(r->w, pos, logits, r->n_vocab, err);
	if (rc < 0)
		cli_die_err("stdout", err);
	return 0;
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Set where to keep checkpoints: at the given positions and the marks of the
 * input.
 */
static void
place_checkpoints(struct tool_intake *in)
{
	uint64_t begin = qwen_session_n_tokens(in->session);
	uint64_t end = begin + in->n;
	size_t i, n = 0;

	if (!cli_given(&opt.keep.every))
		opt.keep.every = qwen_model_checkpoint_every(
		    qwen_session_model(in->session));
	for (i = 0; i < in->n_marks; i++)
		add_named(begin + in->marks[i]);
	if (opt.keep.n_at == 0)
		return;
	qsort(opt.named, opt.keep.n_at, sizeof *opt.named, by_value);
	for (i = 0; i < opt.keep.n_at; i++) {
		if (opt.named[i] > end)
			cli_note("no checkpoint at %llu: there are only %llu "
			    "tokens", cli_llu(opt.named[i]), cli_llu(end));
		else if (n == 0 || opt.named[i] != opt.named[n - 1])
			opt.named[n++] = opt.named[i];
		if (opt.named[i] == begin)
			cli_must(NULL, qwen_session_keep(in->session, 1,
			    &cli_err));
	}
	opt.keep.at = opt.named;
	opt.keep.n_at = n;
}

/*
 * Return the row of logits that the state holds, if no tokens are added and the
 * last row is requested; else NULL.
 */
static const float *
state_row(const struct tool_intake *in)
{
	return in->n == 0 && opt.logits == QWEN_LOGITS_LAST ?
	    qwen_session_logits(in->session) : NULL;
}

static uint64_t
n_rows(const struct tool_intake *in)
{
	if (in->n == 0)
		return state_row(in) != NULL;
	return opt.logits == QWEN_LOGITS_ALL ? in->n : 1;
}

/* Return the format of a stream; -f npy and npz mean the trace then. */
static enum qwen_format
stream_format(void)
{
	return opt.format > (int)QWEN_FORMAT_RAW ? QWEN_FORMAT_CBOR :
	    (enum qwen_format)opt.format;
}

/* Read the tokens and write rows to r, which is NULL if none are requested. */
static void
evaluate(struct tool_intake *in, struct row_sink *r)
{
	struct qwen_eval how = {
		.logits = opt.logits == QWEN_LOGITS_ALL ? QWEN_LOGITS_ALL :
		    QWEN_LOGITS_LAST,
		.batch = opt.batch, .row = r != NULL ? write_row : NULL,
		.arg = r, .keep = &opt.keep,
	};
	struct qwen_model *m = qwen_session_model(in->session);
	struct cli_output *out;

	if (r != NULL && state_row(in) != NULL)
		write_row(r, qwen_session_n_tokens(in->session) - 1,
		    state_row(in), &cli_err);
	if (opt.imatrix != NULL)
		cli_must(NULL, qwen_imatrix_start(m, &cli_err));
	if (opt.trace.stages != NULL)
		qprefill_trace_begin(&opt.trace, in, opt.format);
	tool_prefill(in, &how);
	if (opt.trace.stages != NULL)
		qprefill_trace_end(&opt.trace, in->session);
	if (opt.imatrix == NULL)
		return;
	out = cli_output_open(opt.imatrix);
	cli_must(opt.imatrix, qwen_imatrix_write(m, in->n, NULL,
	    cli_output_fd(out), &cli_err));
	cli_output_commit(out);
}

/*
 * Write a trace or rows to stdout if they are requested; else, with -o, a
 * record that the file is complete; else the state.
 */
static void
run(struct tool_intake *in, struct qwen_model *m)
{
	struct row_sink r = { .n_vocab = qwen_model_n_vocab(m) };
	int wanted = opt.logits != QWEN_LOGITS_NONE;
	int traced = trace_is_stdout();
	struct cli_output *out = NULL;
	struct tool_saves saves = { .opts = opt.state, .every = opt.every };
	struct qwen_fp fp;

	if (opt.every >= 0) {
		tool_saves_check(opt.output);
		tool_saves_on_signal();
	}
	if (opt.output != NULL)
		out = cli_output_open(opt.output);
	if (opt.every >= 0) {
		saves.out = out;
		tool_saves_begin(&saves);
		in->saves = &saves;
	}
	in->saved = out != NULL || (!wanted && !traced);
	if (wanted && opt.format == QPREFILL_NPY) {
		r.array.n_rows = n_rows(in);
		r.array.width = r.n_vocab;
		qprefill_npy_header(&r.text, &r.array);
		cli_write_all(STDOUT_FILENO, "stdout", &r.text);
	} else if (wanted) {
		r.w = tool_writer(STDOUT_FILENO, stream_format());
		tool_write_header(r.w, QWEN_STREAM_LOGITS, m);
	}
	evaluate(in, wanted ? &r : NULL);
	if (opt.every >= 0)
		tool_saves_end(&saves);
	if (out != NULL) {
		tool_save(in, cli_output_fd(out), opt.output, &opt.state, &fp);
		cli_output_commit(out);
	} else if (!wanted && !traced)
		tool_save(in, STDOUT_FILENO, "stdout", &opt.state, NULL);
	/* no record on a terminal, except with -f */
	if (out != NULL && !wanted && !traced && (cli_given(&opt.format) ||
	    !isatty(STDOUT_FILENO))) {
		r.w = tool_writer(STDOUT_FILENO, stream_format());
		tool_write_header(r.w, QWEN_STREAM_TOKENS, m);
	}
	/* only now, since the reader may open the file at once */
	if (out != NULL && r.w != NULL)
		cli_must("stdout", qwen_write_ready(r.w, opt.output,
		    qwen_session_n_tokens(in->session), &fp, &cli_err));
	qwen_writer_free(r.w);
	qwen_text_fini(&r.text);
}

int
main(int argc, char *argv[])
{
	struct tool_intake *in = &intake;
	struct qwen_model *m;
	int status;

	cli_begin(&tool, argc, argv);
	check_options(in);
	if (!cli_given(&opt.format) && (opt.output == NULL ||
	    opt.logits != QWEN_LOGITS_NONE || trace_is_stdout()))
		cli_no_binary_tty();
	opt.model = tool_model_path_stream(opt.model);
	m = tool_model_open_draft(opt.model, opt.n_threads, opt.numerics,
	    &opt.draft);
	tool_report_model(m);
	tool_intake(in, m);
	if (in->n == 0 && !in->restored)
		die("no input: give tokens on stdin, or a state with -s");
	/* rows, sums and traces of all tokens need all tokens to be read */
	if (opt.logits != QWEN_LOGITS_ALL && opt.imatrix == NULL &&
	    opt.trace.stages == NULL)
		tool_reuse(in, &opt.reuse);
	place_checkpoints(in);
	tool_memory_check(m, &(struct tool_need){ .batch = opt.batch, .keep =
	    &opt.keep,
	    .n_tokens = qwen_session_n_tokens(in->session) + in->n });
	run(in, m);
	tool_report_stats(m);
	/*
	 * stdout is closed before the memory is freed, as the next tool waits
	 * for that
	 */
	status = cli_finish();
	tool_intake_fini(in);
	qwen_model_close(m);
	return status;
}
