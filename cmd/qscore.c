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

/* --------------------------------------------------------- the command line */

static struct qscore_run run = { .work.n_sequences = TOOL_SEQUENCES };
static struct tool_lines lines;		/* of --requests */
static struct qwen_unknown unknown;
static struct qscore_base base;
static int n_read;			/* of opt.files */

static const struct cli_opt options[] = {
	CLI_GROUP("input:"),
	TOOL_OPT_MODEL(&run.work.path),
	CLI_FLAG(0, "requests", &opt.requests,
	    "input is JSON requests, one per line; so are the results"),
	TOOL_OPT_STRICT(&unknown.strict),
	CLI_FLAG(0, "tokens", &opt.tokens,
	    "input is streams of tokens, as qtok writes them"),
	CLI_OPT_SPECIAL(&run.how.encode),
	TOOL_OPT_NFC,
	TOOL_OPT_FORCE_TEXT,
	CLI_FLAG(0, "bos", &run.how.bos,
	    "always begin texts with the BOS token"),
	CLI_FLAG(0, "no-bos", &opt.no_bos,
	    "never begin texts with the BOS token"),
	CLI_INT(0, "context", "n", &opt.context, 2, 1 << 30,
	    "windows of N tokens (default the context)"),
	CLI_INT(0, "stride", "n", &opt.stride, 1, 1 << 30,
	    "a new window every N tokens (default half of --context)"),
	CLI_FILE(0, "base", "file", &base.path, "file gguf",
	    "compare with this model, or with logits or a state made by one"),

	CLI_GROUP("output:"),
	TOOL_OPT_OUTPUT(&opt.output),
	CLI_OPT_FORMAT(&run.json, "text json",
	    "format of the output; json prints JSON lines"),
	CLI_FLAG(0, "each", &run.per_token, "print every token, too"),
	CLI_INT(0, "top", "n", &run.n_top, 1, QWEN_JOB_TOP_MAX,
	    "print the N most likely tokens at each place; implies --each"),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_WORK(&run.work),
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
	if (run.how.bos && opt.no_bos)
		cli_usage("--bos and --no-bos exclude each other");
	if (opt.requests && opt.tokens)
		cli_usage("--requests reads JSON lines: not with --tokens");
	if (unknown.strict && !opt.requests)
		cli_usage("--strict needs --requests");
	if (opt.requests && cli_given(&r->json) && !r->json)
		cli_usage("--requests prints JSON lines: not with -f text");
	if (base.path != NULL)
		check_base(r);
	tool_store_from_env(&r->work.at);
	for (i = 0; i < opt.n_files; i++)
		stdin_used |= strcmp(opt.files[i], "-") == 0;
	if (base.path != NULL && strcmp(base.path, "-") == 0) {
		if (stdin_used)
			cli_usage("--base -: then the text must be in a file");
		stdin_used = 1;
	}
	if (stdin_used)
		cli_need_stdin();
}

static void
parse(int argc, char *argv[])
{
	opt.n_files = cli_begin(&tool, argc, argv);
	opt.files = argv + 1;
	run.per_token |= run.n_top > 0;
	check_options(&run);
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
	    opt.requests || base.rows != NULL || base.n_past > 0 ||
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
	s->how.unknown = &unknown;
	if (s->n_top > s->how.n_vocab)
		s->n_top = s->how.n_vocab;
	s->how.bos_id = first_token(s->work.gguf, s->how.n_vocab);
	if (s->how.bos && s->how.bos_id < 0)
		die("%s: the model names no BOS token: --bos is not possible",
		    qwen_gguf_path(s->work.gguf, 0));
	if (base.path != NULL) {
		base.batch = s->work.n_pass;
		qscore_base_open(&base, s);
		if (base.n_past > 0 && s->how.bos)
			cli_usage("--bos: texts follow the state of --base, so "
			    "they have no BOS");
	}
	/* a text after a state has the BOS of the state */
	if (qwen_tok_bos(s->work.tok) >= 0 && !opt.no_bos &&
	    base.n_past == 0) {
		s->how.bos_id = qwen_tok_bos(s->work.tok);
		s->how.bos = 1;
	}
	set_context(s, qwen_model_n_ctx(m));
}

/* -------------------------------------------------------------------- texts */

/* Read a token stream as one text, across documents. */
static int
read_tokens(int fd, struct qwen_ids *t, struct tool_spans *spans,
    struct qwen_err *err)
{
	struct qwen_header self;
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS,
	    .self = &self, .spans = 1 };
	struct qwen_reader *r;
	struct qwen_record rec;
	size_t cap = 0;
	int got;

	tool_header_init(&self, QWEN_STREAM_TOKENS, run.work.model);
	if (qwen_reader_open(&r, fd, &o, err) < 0)
		return -1;
	while ((got = qwen_reader_next(r, &rec, err)) > 0) {
		if (rec.kind == QWEN_REC_ROWS)
			tool_spans_take(spans, &rec);
		if (rec.kind == QWEN_REC_SPAN)
			tool_spans_add(spans, run.work.model,
			    qwen_reader_span(r), t->n);
		if (rec.ids == NULL || rec.n == 0)
			continue;
		cli_grow(&t->id, &cap, t->n + rec.n, sizeof *t->id);
		memcpy(t->id + t->n, rec.ids, rec.n * sizeof *t->id);
		t->n += rec.n;
	}
	qwen_reader_close(r);
	return got;
}

static int
read_text(int fd, const char *name, struct qwen_ids *t, struct qwen_err *err)
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
		rc = qwen_tok_encode(run.how.tok, text, len, run.how.encode,
		    &t->id, &t->n, err);
	free(text);
	return rc;
}

/* Read the tokens of a file: 0, or -1 after a warning. */
static int
read_file(const char *path, const char **name, struct qwen_ids *t,
    struct tool_spans *spans)
{
	struct qwen_err err;
	int fd = cli_open(path, name), rc;

	if (fd == -1) {
		warn("%s: %s", *name, strerror(errno));
		return -1;
	}
	spans->name = *name;
	rc = opt.tokens ? read_tokens(fd, t, spans, &err) :
	    read_text(fd, *name, t, &err);
	if (fd != STDIN_FILENO)
		close(fd);
	if (rc < 0) {
		free(t->id);
		tool_spans_fini(spans);
		if (err.code == QWEN_ENOMEM)
			cli_die_err(*name, &err);
		warn("%s: %s", *name, err.msg);
	}
	return rc;
}

static struct qscore_text *
new_text(struct tool_input **out)
{
	struct qscore_text *x = cli_check_alloc(calloc(1, sizeof *x));

	x->run = &run;
	*out = &x->item;
	return x;
}

/* Refuse images where a window has no place for them. */
static void
take_spans(struct qscore_text *x, const struct tool_spans *spans)
{
	x->spans = *spans;
	tool_spans_end(&x->spans, x->q.n_front);
	if (x->spans.n == 0 || x->q.refusal.err.code != 0)
		return;
	tool_spans_check(&x->spans, 0);
	if (base.path != NULL || x->q.text.n > run.context)
		qwen_refuse(&x->q.refusal, "invalid_request", NULL,
		    base.path != NULL ? "has images: --base compares texts "
		    "without" : "has images, and more tokens than --context");
}

static int
next_file(void *arg, struct tool_input **out)
{
	struct qscore_text *x;
	struct qwen_ids ids = { 0 };
	struct tool_spans spans = { 0 };
	const char *name;

	(void)arg;
	if (n_read >= (opt.n_files > 0 ? opt.n_files : 1))
		return 0;
	if (read_file(opt.n_files > 0 ? opt.files[n_read] : NULL, &name,
	    &ids, &spans) < 0) {
		n_read++;
		return 1;
	}
	n_read++;
	x = new_text(out);
	x->name = name;
	cli_must(NULL, qwen_score_request_text(&x->q, &run.how, &ids,
	    &cli_err));
	if (base.n_past > 0)
		x->q.from = 0;
	if (x->q.text.n <= x->q.from)
		qwen_refuse(&x->q.refusal, "invalid_request", NULL,
		    x->q.from > 0 ? "fewer than two tokens: nothing to "
		    "score" : "no tokens: nothing to score");
	take_spans(x, &spans);
	if (base.path == NULL)
		qscore_begin(&run, x);
	return 1;
}

static int
next_request(void *arg, struct tool_input **out)
{
	struct qscore_text *x;
	struct tool_line line;

	(void)arg;
	if (!tool_lines_next(&lines, &line))
		return 0;
	tool_lines_check(&lines, &line, "requests");
	if (tool_line_is_blank(&line))
		return 1;
	x = new_text(out);
	x->line = lines.line;
	cli_must(NULL, qwen_score_request_parse(&x->q, &run.how, line.s,
	    line.n, &cli_err));
	qscore_begin(&run, x);
	return 1;
}

static int
is_waiting(void *arg)
{
	(void)arg;
	return !opt.requests || tool_lines_waiting(&lines);
}

/* Return the number of texts, for the progress line; 0 if unknown. */
static uint64_t
count_texts(void)
{
	if (!opt.requests || cli_quiet || !isatty(STDERR_FILENO))
		return (uint64_t)opt.n_files;
	return tool_lines_count(lines.fd);
}

static void
score_all(void)
{
	struct qwen_text t = { 0 };
	int table = !opt.requests && !run.json && !run.per_token;

	run.table = table;
	qscore_all(&run);
	if (table && opt.n_files > 1 && run.total.n > 0)
		qscore_line(&run, "total", &run.total, &t);
	qscore_write(&run, &t);
	qwen_text_fini(&t);
}

static void
report_run(double start)
{
	double s = cli_now() - start;

	if (base.path == NULL)
		tool_report_results(&run.work, run.queue.n_done, run.n_tokens,
		    "text", start);
	else if (cli_verbose) {
		cli_note("%s in %.3f s, %s compared, %.1f tok/s",
		    cli_count(run.queue.n_done, "text"), s,
		    cli_count(base.sum.n, "token"), (double)base.sum.n / s);
		tool_report_stats(run.work.model);
	}
}

int
main(int argc, char *argv[])
{
	double start;
	int status;

	parse(argc, argv);
	run.queue = (struct tool_queue){ .work = &run.work, .arg = &run,
	    .next = opt.requests ? next_request : next_file,
	    .waiting = is_waiting };
	/* before the output exists, so that a bad input leaves none */
	if (opt.requests)
		tool_lines_open(&lines, opt.n_files > 0 ? opt.files[0] : NULL);
	open_model(&run);
	if (base.path == NULL)
		tool_work_open(&run.work);
	run.out = cli_output_open(opt.output);
	start = cli_now();
	cli_progress_start("texts", count_texts());
	if (base.path != NULL)
		qscore_compare_all(&base, &run);
	else
		score_all();
	cli_progress_end();
	tool_report_unknown(&unknown);
	if (opt.requests)
		tool_warn_failed(&run.work, 0, run.queue.n_done);
	report_run(start);
	cli_output_commit(run.out);
	status = cli_finish();
	tool_lines_fini(&lines);
	qscore_base_close(&base);
	tool_work_close(&run.work);
	return status;
}
