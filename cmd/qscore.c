/* SPDX-License-Identifier: ISC */
/* qscore.c - print how likely given tokens are, in texts or in requests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"
#include "tool/tool.h"
#include "qscore/qscore.h"

enum { DEFAULT_CONTEXT = 2048 };

static struct {
	const char	*output;		/* NULL: stdout */
	size_t		 context, stride;
	int		 requests, tokens, no_bos;
	char		**files;
	int		 n_files;
} opt;

struct scoring {
	struct qscore_run	 score;
	struct tool_lines	 lines;
	struct qwen_unknown	 unknown;
	struct qscore_base	 base;
	int			 file;	/* index of the next of opt.files */
};

/* --------------------------------------------------------- the command line */

static struct scoring run = {
	.score.work.n_sequences = TOOL_SEQUENCES,
};

static const struct cli_opt options[] = {
	CLI_GROUP("input:"),
	TOOL_OPT_MODEL(&run.score.work.path),
	CLI_FLAG(0, "requests", &opt.requests,
	    "input is JSON requests, one per line; so are the results"),
	TOOL_OPT_STRICT(&run.unknown.strict),
	CLI_FLAG(0, "tokens", &opt.tokens,
	    "input is streams of tokens, as qtok writes them"),
	CLI_OPT_SPECIAL(&run.score.how.encode),
	TOOL_OPT_NFC,
	TOOL_OPT_FORCE_TEXT,
	CLI_FLAG(0, "bos", &run.score.how.bos,
	    "always begin texts with the BOS token"),
	CLI_FLAG(0, "no-bos", &opt.no_bos,
	    "never begin texts with the BOS token"),
	CLI_INT(0, "context", "n", &opt.context, 2, 1 << 30,
	    "windows of N tokens (default the context)"),
	CLI_INT(0, "stride", "n", &opt.stride, 1, 1 << 30,
	    "a new window every N tokens (default half of --context)"),
	CLI_FILE(0, "base", "file", &run.base.path, "file gguf",
	    "compare with this model, or with logits or a state made by one"),

	CLI_GROUP("output:"),
	TOOL_OPT_OUTPUT(&opt.output),
	CLI_OPT_FORMAT(&run.score.json, "text json",
	    "format of the output; json prints JSON lines"),
	CLI_FLAG(0, "each", &run.score.per_token, "print every token, too"),
	CLI_INT(0, "top", "n", &run.score.n_top, 1, QWEN_JOB_TOP_MAX,
	    "print the N most likely tokens at each place; implies --each"),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_WORK(&run.score.work),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qscore",
	.about = "how likely given tokens are: perplexity, scores of "
	    "continuations",
	.usage = "[options] [file ...]\n--requests [options] [file]",
	.options = options, .max = -1,
};

/*
 * Check options against --base: rows are compared in one session per model, for
 * plain texts only.
 */
static void
check_base(const struct qscore_run *r)
{
	const struct tool_work *w = &r->work;

	if (opt.requests)
		cli_usage("--base cannot be combined with --requests");
	if (r->n_top > 0)
		cli_usage("--base cannot be combined with --top");
	if (w->at.dir != NULL || w->mem > 0 || cli_given(&w->n_sequences))
		cli_usage("--base cannot be combined with %s",
		    w->at.dir != NULL ?
		    "--store" : w->mem > 0 ? "--mem" : "--max-sequences");
}

static void
check_options(struct qscore_run *r)
{
	int i, stdin_used = opt.n_files == 0;

	if (opt.requests && opt.n_files > 1)
		cli_usage("unexpected argument: %s", opt.files[1]);
	if (run.score.how.bos && opt.no_bos)
		cli_usage("--bos and --no-bos exclude each other");
	if (opt.requests && opt.tokens)
		cli_usage("--requests reads JSON lines: not with --tokens");
	if (run.unknown.strict && !opt.requests)
		cli_usage("--strict needs --requests");
	if (opt.requests && cli_given(&r->json) && !r->json)
		cli_usage("--requests prints JSON lines: not with -f text");
	if (opt.context > 0 && opt.stride >= opt.context)
		cli_usage("--stride: %zu is not below the context of %zu",
		    opt.stride, opt.context);
	if (run.base.path != NULL)
		check_base(r);
	tool_store_from_env(&r->work.at);
	for (i = 0; i < opt.n_files; i++)
		stdin_used |= strcmp(opt.files[i], "-") == 0;
	if (run.base.path != NULL && strcmp(run.base.path, "-") == 0) {
		if (stdin_used)
			cli_usage("--base -: then the text must be in a file");
		stdin_used = 1;
	}
	if (stdin_used)
		cli_need_stdin();
}

static void
parse(int argc, char *argv[], struct scoring *r)
{
	opt.n_files = cli_begin(&tool, argc, argv);
	opt.files = argv + 1;
	r->score.per_token |= r->score.n_top > 0;
	check_options(&r->score);
}

/* -------------------------------------------------------- before and after */

/*
 * Return the token that texts begin with: BOS, or else EOS; -1 if the file
 * names neither.
 */
static int32_t
first_token(const struct qwen_gguf *g, size_t n_vocab)
{
	static const char *const keys[] = { "tokenizer.ggml.bos_token_id",
	    "tokenizer.ggml.eos_token_id" };
	int32_t id;
	size_t i;

	for (i = 0; i < 2; i++) {
		if (qwen_vocab_id(g, keys[i], n_vocab, &id, NULL) == 1)
			return id;
	}
	return -1;
}

static void
set_context(struct qscore_run *r, size_t n_ctx)
{
	if (opt.context > n_ctx)
		cli_usage("--context: %zu is more than the model's %zu",
		    opt.context, n_ctx);
	r->context = opt.context > 0 ? opt.context :
	    opt.requests || run.base.rows != NULL || run.base.n_past > 0 ||
	    n_ctx < DEFAULT_CONTEXT ?
	    n_ctx : DEFAULT_CONTEXT;
	if (opt.stride >= r->context)
		cli_usage("--stride: %zu is not below the context of %zu",
		    opt.stride, r->context);
	r->stride = opt.stride > 0 ? opt.stride : (r->context + 1) / 2;
}

static void
open_model(struct qscore_run *s)
{
	const struct qwen_model *m;

	tool_work_open_model(&s->work);
	m = s->work.model;
	s->how.tok = s->work.tok;
	s->how.n_vocab = qwen_model_n_vocab(m);
	s->how.unknown = &run.unknown;
	if (s->n_top > s->how.n_vocab)
		s->n_top = s->how.n_vocab;
	s->how.bos_id = first_token(s->work.gguf, s->how.n_vocab);
	if (s->how.bos && s->how.bos_id < 0)
		die("%s: the model names no BOS token: --bos is not possible",
		    qwen_gguf_path(s->work.gguf, 0));
	if (run.base.path != NULL) {
		run.base.batch = s->work.n_pass;
		qscore_base_open(&run.base, s);
		if (run.base.n_past > 0 && s->how.bos)
			cli_usage("--bos: texts follow the state of --base, so "
			    "they have no BOS");
	}
	/* a text after a state has the BOS of the state */
	if (qwen_tok_bos(s->work.tok) >= 0 && !opt.no_bos &&
	    run.base.n_past == 0) {
		s->how.bos_id = qwen_tok_bos(s->work.tok);
		s->how.bos = 1;
	}
	set_context(s, qwen_model_n_ctx(m));
}

/* -------------------------------------------------------------------- texts */

/* Read a token stream as one text, across documents. */
static int
read_tokens(const struct scoring *r, int fd, struct qwen_ids *t,
    struct qwen_err *err)
{
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS };
	struct qwen_header self;
	struct qwen_reader *in;
	struct qwen_record rec;
	size_t cap = 0;
	int got;

	tool_header_init(&self, QWEN_STREAM_TOKENS, r->score.work.model);
	o.self = &self;
	if (qwen_reader_open(&in, fd, &o, err) < 0)
		return -1;
	while ((got = qwen_reader_next(in, &rec, err)) > 0) {
		if (rec.kind != QWEN_REC_TOKENS || rec.n == 0)
			continue;
		cli_grow(&t->id, &cap, t->n + rec.n, sizeof *t->id);
		memcpy(t->id + t->n, rec.ids, rec.n * sizeof *t->id);
		t->n += rec.n;
	}
	qwen_reader_close(in);
	return got;
}

static int
read_text(const struct scoring *r, int fd, const char *name, struct qwen_ids *t,
    struct qwen_err *err)
{
	size_t len;
	char *text = cli_read_fd(fd, name, CLI_FILE_MAX, &len);
	const char *other = tool_force ? NULL : tool_not_text(text, len, 0);
	int rc = -1;

	if (other != NULL) {
		err->code = QWEN_EFORMAT;
		snprintf(err->msg, sizeof err->msg, "this is %s, not text; "
		    "--tokens reads streams, --force reads it as text", other);
	} else
		rc = qwen_tok_encode(r->score.how.tok, text, len,
		    r->score.how.encode, &t->id, &t->n, err);
	free(text);
	return rc;
}

/* Read the tokens of a file: 0, or -1 after a warning. */
static int
read_file(const struct scoring *r, const char *path, const char **name,
    struct qwen_ids *t)
{
	struct qwen_err err;
	int fd = cli_open(path, name), rc;

	if (fd == -1) {
		warn("%s: %s", *name, strerror(errno));
		return -1;
	}
	rc = opt.tokens ? read_tokens(r, fd, t, &err) :
	    read_text(r, fd, *name, t, &err);
	if (fd != STDIN_FILENO)
		close(fd);
	if (rc < 0) {
		free(t->id);
		if (err.code == QWEN_ENOMEM)
			cli_die_err(*name, &err);
		warn("%s: %s", *name, err.msg);
	}
	return rc;
}

static int
next_file(void *arg, struct qscore_text **out)
{
	struct scoring *r = arg;
	struct qscore_text *x = NULL;
	struct qwen_ids ids = { 0 };
	const char *name;

	if (r->file >= (opt.n_files > 0 ? opt.n_files : 1))
		return 0;
	if (read_file(r, opt.n_files > 0 ? opt.files[r->file] : NULL, &name,
	    &ids) == 0) {
		x = cli_check_alloc(calloc(1, sizeof *x));
		x->name = name;
		cli_must(NULL, qwen_score_request_text(&x->q, &r->score.how,
		    &ids, &cli_err));
		if (r->base.n_past > 0)
			x->q.from = 0;
		if (x->q.text.n <= x->q.from)
			qwen_refuse(&x->q.refusal, "invalid_request", NULL,
			    x->q.from > 0 ? "fewer than two tokens: nothing to "
			    "score" : "no tokens: nothing to score");
	}
	r->file++;
	*out = x;
	return 1;
}

static int
file_waits(void *arg)
{
	(void)arg;
	return 1;
}

static int
next_request(void *arg, struct qscore_text **out)
{
	struct scoring *r = arg;
	struct qscore_text *x;
	struct tool_line line;

	*out = NULL;
	if (!tool_lines_next(&r->lines, &line))
		return 0;
	tool_lines_check(&r->lines, &line, "requests");
	if (tool_line_is_blank(&line))
		return 1;
	*out = x = cli_check_alloc(calloc(1, sizeof *x));
	x->line = r->lines.line;
	cli_must(NULL, qwen_score_request_parse(&x->q, &r->score.how, line.s,
	    line.n, &cli_err));
	return 1;
}

static int
request_waits(void *arg)
{
	const struct scoring *r = arg;

	return tool_lines_waiting(&r->lines);
}

/*
 * Open the input.  Called before the output exists, so that a bad input leaves
 * none.
 */
static void
open_source(struct scoring *r)
{
	struct tool_lines *in = &r->lines;

	r->score.source.arg = r;
	if (!opt.requests) {
		r->score.source.next = next_file;
		r->score.source.waiting = file_waits;
		return;
	}
	r->score.source.next = next_request;
	r->score.source.waiting = request_waits;
	tool_lines_open(in, opt.n_files > 0 ? opt.files[0] : NULL);
}

/* Return the number of texts, for the progress line; 0 if unknown. */
static uint64_t
count_texts(const struct scoring *r)
{
	if (!opt.requests || cli_quiet || !isatty(STDERR_FILENO))
		return (uint64_t)opt.n_files;
	return tool_lines_count(r->lines.fd);
}

static void
score_all(struct qscore_run *r)
{
	int table = !opt.requests && !r->json && !r->per_token;
	struct qwen_text t = { 0 };

	r->table = table;
	qscore_all(r);
	if (table && opt.n_files > 1 && r->total.n > 0)
		qscore_line(r, "total", &r->total, &t);
	qscore_write(r, &t);
	qwen_text_fini(&t);
}

static void
report_run(struct scoring *r, double start)
{
	struct qwen_work_stats st;
	double s = cli_now() - start;

	if (!cli_verbose)
		return;
	if (r->base.path != NULL) {
		cli_note("%s in %.3f s, %s compared, %.1f tok/s",
		    cli_count(r->score.n_done, "text"), s,
		    cli_count(r->base.sum.n, "token"),
		    (double)r->base.sum.n / s);
		tool_report_stats(r->score.work.model);
		return;
	}
	qwen_work_stats(r->score.work.work, &st);
	cli_note("%s in %.3f s, %llu of them failed; %s scored, %.1f tok/s",
	    cli_count(r->score.n_done, "text"), s,
	    (unsigned long long)r->score.work.n_failed,
	    cli_count(st.scored, "token"), (double)st.scored / s);
	cli_note("%s read, %llu shared, %llu from the store; passes: %llu in "
	    "%.3f s; %s a sequence was preempted", cli_count(st.read, "token"),
	    (unsigned long long)st.shared, (unsigned long long)st.stored,
	    (unsigned long long)st.n_passes, st.pass_s,
	    cli_count(st.preempted, "time"));
	tool_report_stats(r->score.work.model);
}

int
main(int argc, char *argv[])
{
	double start;
	int status;

	parse(argc, argv, &run);
	open_source(&run);
	open_model(&run.score);
	if (run.base.path == NULL)
		tool_work_open(&run.score.work);
	run.score.out = cli_output_open(opt.output);
	start = cli_now();
	cli_progress_start("texts", count_texts(&run));
	if (run.base.path != NULL)
		qscore_compare_all(&run.base, &run.score);
	else
		score_all(&run.score);
	cli_progress_end();
	tool_report_unknown(&run.unknown);
	if (opt.requests)
		tool_warn_failed(&run.score.work, 0, run.score.n_done);
	report_run(&run, start);
	cli_output_commit(run.score.out);
	status = cli_finish();
	tool_lines_fini(&run.lines);
	qscore_base_close(&run.base);
	tool_work_close(&run.score.work);
	return status;
}
