/* SPDX-License-Identifier: ISC */
/*
 * qdecode.c - read a state and tokens; write the tokens that follow, or logits.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "qdecode/qdecode.h"

enum { OPTIONS_MAX = 2048, EVERY_MAX = 1000000000 };

static struct {
	const char		*model;
	const char		*output;	/* NULL: do not save the
						   state */
	enum qwen_format	 format;
	int64_t			 n;		/* most tokens to generate */
	int			 n_threads;
	unsigned		 numerics;	/* 0: the default version */
	int			 ignore_eos;
	int			 logits;
	int			 mask_unused;
	size_t			 top;		/* best logits per row; 0:
						   all */
	int			 new_run;
	int			 resume;
	double			 every;		/* seconds between saves; -1:
						   never */
	int64_t			 shift;		/* with a full context: first
						   tokens to keep, dropping
						   others; -1: no shift */
	struct qwen_state_opts	 state;
} opt = { .n = INT64_MAX, .every = -1, .shift = -1 };

/* The state of this program. */
struct decoding {
	struct tool_intake	 in;
	struct qwen_model	*model;
	struct qwen_sampler	*sampler;
	struct qwen_pieces	*pieces;	/* for the sampler; or NULL */
	struct tool_grammar	 grammar;
	struct tool_draft	 draft;
	struct tool_reuse	 reuse;		/* only its store is used */
	struct qwen_drafter	*drafter;
	struct qwen_writer	*w;
	struct cli_output	*out;		/* of -o, or NULL */
	struct qdecode_run	 record;	/* with --save-every */
	struct tool_saves	 saves;		/* with --save-every */
	struct qwen_header	 header;	/* of logits; has the ending
						   ids */
	int64_t			 n;		/* tokens generated so far */
	int			 reader_gone;	/* the reader of stdout left */
};

static struct decoding run = { .draft = { .mode = QWEN_DRAFT_AUTO } };

static const struct cli_opt options[] = {
	CLI_GROUP("states and tokens:"),
	TOOL_OPT_MODEL(&opt.model),
	CLI_STD('s', "state", "state", &run.in.state, "inout",
	    "continue from the state in this file"),
	CLI_FILE('o', "output", "state", &opt.output, "output",
	    "write the final state to this file"),
	CLI_OPT_FORMAT(&opt.format, "cbor text json raw",
	    "format of the output"),
	CLI_INT('n', "count", "count", &opt.n, 0, INT64_MAX,
	    "generate at most COUNT tokens"),
	CLI_INT(0, "shift", "n", &opt.shift, 0, INT32_MAX,
	    "when the context is full, drop old tokens after the first N"),
	TOOL_OPT_STORE(&run.reuse.store),
	TOOL_OPT_IGNORE_EOS(&opt.ignore_eos),
	TOOL_OPT_MASK_UNUSED(&opt.mask_unused),
	TOOL_OPT_GRAMMAR(&run.grammar),
	CLI_FLAG(0, "resume", &opt.resume,
	    "use the sampling options stored in the state"),
	CLI_FLAG(0, "logits", &opt.logits,
	    "write rows of logits, and read the tokens chosen from stdin"),
	CLI_INT(0, "top", "n", &opt.top, 1, QWEN_VOCAB_MAX,
	    "with --logits: only the N best of each row"),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_COMPUTE(&opt),
	TOOL_OPT_LORA,
	TOOL_OPT_ROPE,
	TOOL_OPT_DRAFT(&run.draft),
	CLI_REAL(0, "save-every", "seconds", &opt.every, 0, EVERY_MAX,
	    "save to -o at this interval, to resume after a crash"),
	CLI_FLAG(0, "new-run", &opt.new_run,
	    "start anew even if -o holds an unfinished run"),
	TOOL_OPT_NO_COMPRESS(&opt.state),
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),
	TOOL_OPT_SAMPLING(&run.sampler),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qdecode", .about = "generate the tokens that follow a state",
	.usage = "[options]\n--logits -s state [options]",
	.options = options, .appends = 1,
};

static void
check_options(struct decoding *r)
{
	tool_sampling_check(r->sampler);
	if (tool_seed == TOOL_SEED_RANDOM && opt.every >= 0)
		cli_usage("--seed random: with --save-every a rerun must draw "
		    "the same numbers to resume; give a number");
	tool_report_seed(r->sampler);
	tool_draft_check(&r->draft);
	if (opt.output != NULL && strcmp(opt.output, "-") == 0)
		cli_usage("-o -: stdout carries the tokens");
	if (opt.every >= 0 && opt.output == NULL)
		cli_usage("--save-every needs -o, the file to save to");
	if (opt.new_run && opt.every < 0)
		cli_usage("--new-run needs --save-every: otherwise every run "
		    "is new");
	if (opt.shift >= 0 && (opt.every >= 0 || opt.logits))
		cli_usage("--shift cannot be combined with %s", opt.logits ?
		    "--logits" : "--save-every");
	if (opt.resume && cli_given(&run.sampler))
		cli_usage("--resume takes the sampling options from the state: "
		    "give no others");
	if (opt.logits && r->reuse.store.dir != NULL)
		cli_usage("--store has no effect with --logits, which "
		    "continues only from the state of -s");
	if (!opt.logits) {
		if (opt.top > 0 || opt.format == QWEN_FORMAT_RAW)
			cli_usage("%s needs --logits", opt.top > 0 ? "--top" :
			    "-f raw");
		return;
	}
	if (r->in.state == NULL)
		cli_usage("--logits needs -s: stdin carries the chosen tokens");
	if (opt.every >= 0)
		cli_usage("--save-every cannot be combined with --logits");
	if (cli_given(&run.sampler) || opt.resume || opt.mask_unused ||
	    cli_given(&run.grammar.path) || cli_given(&run.grammar.schema))
		cli_usage("with --logits, qsample chooses the tokens");
	if (opt.top > 0 && opt.format == QWEN_FORMAT_RAW)
		cli_usage("-f raw writes whole rows: --top needs another -f");
}

static int
is_ending(const struct decoding *r, int32_t id)
{
	return !opt.ignore_eos && tool_is_ending(&r->header, id);
}

/* Return 1 if no further token can be generated. */
static int
is_full(const struct decoding *r)
{
	return r->n >= opt.n || (opt.shift < 0 &&
	    qwen_session_n_tokens(r->in.session) >= qwen_model_n_ctx(r->model));
}

/* Append a generated token to the session and the state's records. */
static void
append_token(struct decoding *r, int32_t id)
{
	size_t pos = qwen_session_n_tokens(r->in.session);
	/* r->n already counts this token; drafts come after it */
	uint64_t room = (uint64_t)(opt.n - r->n);

	if (opt.shift >= 0 && pos == qwen_model_n_ctx(r->model)) {
		qdecode_shift(&r->in, r->model, (size_t)opt.shift);
		pos = qwen_session_n_tokens(r->in.session);
		qwen_drafter_free(r->drafter);
		cli_must(NULL, qwen_drafter_new(&r->drafter, r->draft.drafts,
		    &cli_err));
	}
	tool_drafter_eval(r->drafter, r->in.session, id, room < QWEN_GUESS_MAX ?
	    (size_t)room : QWEN_GUESS_MAX);
	cli_must(NULL, qwen_state_extra_generated(&r->in.extra, pos, 1,
	    &cli_err));
	if (opt.every >= 0)
		r->in.extra.run.count++;
}

/* ---------------------------------------------------------- choosing tokens */

/* Start the sampler and replay the tokens of the session to it. */
static void
begin_sampling(struct decoding *r)
{
	const struct qwen_session *s = r->in.session;

	if (opt.mask_unused)
		tool_mask_unused(r->sampler, qwen_model_gguf(r->model));
	r->pieces = tool_sampling_pieces(r->sampler, qwen_model_gguf(r->model));
	tool_grammar_begin(&r->grammar, r->pieces, r->sampler);
	cli_must(NULL, qwen_sampler_eog(r->sampler, r->header.eog,
	    r->header.n_eog, &cli_err));
	cli_must(NULL, qwen_state_extra_sampler(&r->in.extra, r->sampler,
	    &cli_err));
	cli_must(NULL, qwen_sampler_begin(r->sampler,
	    qwen_model_n_vocab(r->model), &cli_err));
	cli_must(NULL, qwen_state_extra_replay(&r->in.extra, r->sampler,
	    qwen_session_tokens(s), qwen_session_n_tokens(s), &cli_err));
}

static void
generate(struct decoding *r)
{
	const struct qwen_session *begun = r->in.session;
	double start = cli_now(), s;
	size_t n = qwen_session_n_tokens(begun);
	int64_t before = r->n;
	int done = is_full(r);
	int32_t id;

	/* an earlier run may have generated the last token */
	if (r->n > 0)
		done = done || qwen_sampler_stopped(r->sampler) ||
		    is_ending(r, qwen_session_tokens(begun)[n - 1]);
	while (!done) {
		if (opt.every >= 0)
			tool_saves_now(&r->saves, &r->in);
		id = tool_sample_token(r->sampler, r->in.session);
		qwen_sampler_save(r->sampler, r->in.extra.memory);
		cli_must("stdout", qwen_write_tokens(r->w, &id, 1, &cli_err));
		r->n++;
		done = is_ending(r, id) || r->n >= opt.n ||
		    qwen_sampler_stopped(r->sampler);
		/* only a saved state needs the last token */
		if (!done || r->out != NULL)
			append_token(r, id);
		done = done || is_full(r);
	}
	s = cli_now() - start;
	if (r->n > before &&
	    qwen_sampler_stopped(r->sampler) == QWEN_STOPPED_REPEAT)
		cli_note("ended: the tokens repeat (--stop-repeat)");
	if (r->n < opt.n && is_full(r))
		cli_note("the context of %zu tokens is full; --shift continues",
		    qwen_model_n_ctx(r->model));
	if (cli_verbose && r->n > before)
		cli_note("%s generated in %.3f s, %.1f tok/s",
		    cli_count((uint64_t)(r->n - before), "token"), s,
		    (double)(r->n - before) / s);
	if (opt.every >= 0)
		tool_saves_end(&r->saves);
}

/*
 * Return a text of all options that influence the tokens.  The model and the
 * input are not part of it.
 */
static const char *
describe(const struct decoding *r)
{
	static char text[OPTIONS_MAX];
	size_t n = 0;

	if (opt.n != INT64_MAX)
		n = (size_t)snprintf(text, sizeof text, "n=%lld ",
		    (long long)opt.n);
	n += (size_t)snprintf(text + n, sizeof text - n, "%s%s",
	    opt.ignore_eos ? "ignore-eos " : "",
	    opt.mask_unused ? "mask-unused " : "");
	if (r->grammar.path != NULL)
		n += (size_t)snprintf(text + n, sizeof text - n,
		    "grammar=%016llx ", cli_llu(r->grammar.hash));
	n += qwen_sampler_describe(r->sampler, text + n, sizeof text - n);
	if (n >= sizeof text)
		die("the options take more than %d bytes", OPTIONS_MAX);
	if (n > 0 && text[n - 1] == ' ')
		text[n - 1] = '\0';
	return text;
}

/*
 * Load the input and the state to continue from.  Return 1 if -o holds an
 * earlier part of this run: the session is then at the end of that part.
 */
static int
load_input(struct decoding *r)
{
	int begun = 0;

	tool_intake_stdin(&r->in, r->model);
	if (opt.every >= 0) {
		r->record.output = opt.output;
		r->record.new_run = opt.new_run;
		qdecode_run_open(&r->record, &r->in);
		/* the open output locks the file against other processes */
		r->out = cli_output_open(opt.output);
		r->saves = (struct tool_saves){ .out = r->out,
		    .opts = opt.state, .every = opt.every };
		tool_saves_begin(&r->saves);
	}
	tool_intake_state(&r->in, r->model);
	/* the sampling options in the state: "temp=0.7 top-k=40" */
	if (opt.resume && r->in.extra.sampler != NULL &&
	    (qwen_sampler_read(r->sampler, r->in.extra.sampler, &cli_err) < 0 ||
	    qwen_sampler_check(r->sampler, &cli_err) < 0))
		cli_die_err(r->in.state != NULL ? r->in.state : "stdin",
		    &cli_err);
	if (opt.every >= 0) {
		r->record.options = describe(r);
		begun = qdecode_run_find(&r->record, &r->in, r->model);
	}
	tool_intake_fits(&r->in, r->model);
	if (r->in.n == 0 && !r->in.restored)
		die("no input: give tokens on stdin, or a state with -s");
	if (opt.every < 0 && opt.output != NULL)
		r->out = cli_output_open(opt.output);
	return begun;
}

/* Write the tokens of an earlier part of this run again. */
static void
rewrite_tokens(struct decoding *r)
{
	const struct qwen_run *begun = &r->in.extra.run;
	const int32_t *tokens = qwen_session_tokens(r->in.session);
	uint64_t i;

	for (i = begun->from; i < begun->from + begun->count; i++) {
		cli_must("stdout", qwen_write_tokens(r->w, &tokens[i], 1,
		    &cli_err));
	}
	r->n = (int64_t)begun->count;
}

/*
 * Generate to the end, from the prompt or from where an earlier part stopped.
 */
static void
decode_run(struct decoding *r, int begun)
{
	size_t n_input = r->in.n;
	size_t n = qwen_session_n_tokens(r->in.session) + n_input;

	/* reserve memory for -n tokens if they are limited */
	if (opt.n < (int64_t)(qwen_model_n_ctx(r->model) - n))
		n += (size_t)opt.n;
	r->in.saved = opt.output != NULL;
	if (r->in.n > 0)
		tool_reuse(&r->in, &r->reuse);
	tool_memory_check(r->model, &(struct tool_need){ .n_tokens = n,
	    .draft = &r->draft });
	tool_prefill(&r->in, NULL);
	/* generated tokens are not added to the store */
	qwen_store_close(r->in.store);
	r->in.store = NULL;
	if (qwen_session_logits(r->in.session) == NULL)
		die("the state has no logits to continue from");
	begin_sampling(r);
	tool_write_header(r->w, QWEN_STREAM_TOKENS, r->model);
	if (begun)
		rewrite_tokens(r);
	else if (opt.every >= 0)
		qdecode_run_begin(&r->record, &r->in, n_input);
	generate(r);
	if (opt.every >= 0)
		r->in.extra.run.finished = 1;
}

static void
run_tokens(struct decoding *r)
{
	int begun = load_input(r);

	if (!begun || !r->in.extra.run.finished) {
		decode_run(r, begun);
		return;
	}
	tool_write_header(r->w, QWEN_STREAM_TOKENS, r->model);
	rewrite_tokens(r);
	cli_output_cancel(r->out);
	r->out = NULL;
}

/* ------------------------------------------------ tokens chosen by qsample */

static void
write_row(struct decoding *r)
{
	const struct qwen_session *s = r->in.session;
	size_t n = qwen_model_n_vocab(r->model);
	uint64_t pos = qwen_session_n_tokens(s) - 1;
	int rc;

	rc = opt.top > 0 ?
	    qwen_write_top(r->w, pos, qwen_session_logits(s), n, opt.top,
	    &cli_err) :
	    qwen_write_logits(r->w, pos, qwen_session_logits(s), n, &cli_err);
	if (rc == 0)
		return;
	/* a reader that has enough closes the pipe: no failure */
	if (cli_err.code != QWEN_EPIPE)
		cli_die_err("stdout", &cli_err);
	r->reader_gone = 1;
}

/* Return 1 if the rows are still read or the state is saved. */
static int
is_needed(const struct decoding *r)
{
	return !r->reader_gone || r->out != NULL;
}

/* Append the tokens that qsample chose; return 0 after the last one. */
static int
handle_choice(struct decoding *r, const struct qwen_record *rec)
{
	size_t i;
	int done = 0;

	for (i = 0; i < rec->n && !done; i++) {
		r->n++;
		done = is_ending(r, rec->ids[i]) || r->n >= opt.n;
		if (!done || r->out != NULL)
			append_token(r, rec->ids[i]);
		done = done || is_full(r);
		if (!done && !r->reader_gone)
			write_row(r);
	}
	return !done && is_needed(r);
}

static void
run_logits(struct decoding *r)
{
	struct qwen_reader_opts o = {
		.kinds = QWEN_STREAM_TOKENS, .self = &r->header,
	};
	struct qwen_reader *reader;
	struct qwen_record rec;

	/* the state is saved even if the reader of stdout left */
	signal(SIGPIPE, SIG_IGN);
	cli_must(r->in.state, qwen_state_load_file(&r->in.session, &r->in.extra,
	    r->model, r->in.state, NULL, &cli_err));
	if (qwen_session_logits(r->in.session) == NULL)
		die("%s: the state has no logits to continue from",
		    r->in.state);
	if (opt.output != NULL)
		r->out = cli_output_open(opt.output);
	cli_must("stdout", qwen_write_header(r->w, &r->header, &cli_err));
	if (is_full(r))
		return;
	write_row(r);
	if (!is_needed(r) || cli_stdin_kind() == CLI_STDIN_NONE)
		return;
	cli_must("stdin", qwen_reader_open(&reader, STDIN_FILENO, &o,
	    &cli_err));
	while (cli_must("stdin", qwen_reader_next(reader, &rec, &cli_err)) > 0)
		if (rec.kind == QWEN_REC_TOKENS && !handle_choice(r, &rec))
			break;
	qwen_reader_close(reader);
}

/* -------------------------------------------------------------------------- */

static void
finish(struct decoding *r)
{
	if (r->reader_gone)
		qwen_writer_free(r->w);
	else
		cli_must("stdout", qwen_writer_close(r->w, &cli_err));
	if (r->out != NULL) {
		tool_save(&r->in, cli_output_fd(r->out), opt.output,
		    &opt.state, NULL);
		cli_output_commit(r->out);
	}
	tool_report_draft(&r->draft);
	tool_report_stats(r->model);
}

int
main(int argc, char *argv[])
{
	struct decoding *r = &run;
	const char *source;
	int status;

	cli_begin(&tool, argc, argv);
	check_options(r);
	if (!opt.logits)
		tool_store_from_env(&r->reuse.store);
	tool_grammar_open(&r->grammar, r->sampler);
	if (!cli_given(&opt.format))
		cli_no_binary_tty();
	opt.model = tool_model_path_stream(opt.model);
	r->model = tool_model_open_draft(opt.model, opt.n_threads,
	    opt.numerics, &r->draft);
	tool_report_model(r->model);
	source = tool_sampling_advise(r->sampler, qwen_model_gguf(r->model), 0,
	    0);
	if (source != NULL)
		tool_report_sampling(r->sampler, source, "");
	if (opt.shift >= 0 && (size_t)opt.shift + 2 > qwen_model_n_ctx(r->model))
		cli_usage("--shift: the context leaves no room besides %lld of "
		    "its %zu tokens", (long long)opt.shift,
		    qwen_model_n_ctx(r->model));
	tool_header_init(&r->header, QWEN_STREAM_LOGITS, r->model);
	tool_draft_open(&r->draft, r->model);
	cli_must(NULL, qwen_drafter_new(&r->drafter, r->draft.drafts,
	    &cli_err));
	r->w = tool_writer(STDOUT_FILENO, opt.format);
	if (opt.logits)
		run_logits(r);
	else
		run_tokens(r);
	finish(r);
	/*
	 * stdout is closed before the memory is freed, as its reader waits for
	 * that
	 */
	status = cli_finish();
	qwen_drafter_free(r->drafter);
	qwen_drafts_free(r->draft.drafts);
	tool_intake_fini(&r->in);
	qwen_model_close(r->model);
	return status;
}
