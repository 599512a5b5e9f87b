/* SPDX-License-Identifier: ISC */
/* qprefill.c - tokens in; the model's state behind them, and logits, out. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "cli/cli.h"

static const char usage[] =
    "qprefill [-qv] [-m model] [-s state] [-o state] [-t threads]\n"
    "                [-f format] [--logits which] [--top n] [--batch n]\n"
    "                [--no-compress]\n";

enum { O_LOGITS = 256, O_TOP, O_BATCH, O_NO_COMPRESS };

static const struct cli_option options[] = {
	{ 'f', "format", 1 },
	{ 'm', "model", 1 },
	{ 'o', "output", 1 },
	{ 's', "state", 1 },
	{ 't', "threads", 1 },
	{ O_BATCH, "batch", 1 },
	{ O_LOGITS, "logits", 1 },
	{ O_NO_COMPRESS, "no-compress", 0 },
	{ O_TOP, "top", 1 },
	{ 0, NULL, 0 },
};

static struct {
	const char		*model;
	const char		*output;	/* NULL: stdout */
	enum qwen_format	 format;
	int			 format_given;
	enum qwen_logits	 logits;
	size_t			 top;		/* 0: whole rows */
	size_t			 batch;
	int			 n_threads;
	struct qwen_state_opts	 state;
} opt = { .logits = QWEN_LOGITS_NONE };

static enum qwen_logits
parse_logits(const char *s)
{
	if (strcmp(s, "last") == 0)
		return QWEN_LOGITS_LAST;
	if (strcmp(s, "all") == 0)
		return QWEN_LOGITS_ALL;
	if (strcmp(s, "none") == 0)
		return QWEN_LOGITS_NONE;
	cli_usage("--logits: '%s' is not last, all or none", s);
}

static void
parse_one(int c, const char *arg, struct cli_intake *in)
{
	switch (c) {
	case 'f':
		opt.format = cli_format(arg, 1 << QWEN_FORMAT_CBOR |
		    1 << QWEN_FORMAT_TEXT | 1 << QWEN_FORMAT_JSON |
		    1 << QWEN_FORMAT_RAW);
		opt.format_given = 1;
		break;
	case 'm':
		opt.model = arg;
		break;
	case 'o':
		opt.output = strcmp(arg, "-") == 0 ? NULL : arg;
		break;
	case 's':
		in->state = strcmp(arg, "-") == 0 ? NULL : arg;
		break;
	case 't':
		opt.n_threads = cli_threads(arg);
		break;
	case O_BATCH:
		opt.batch = (size_t)cli_int("--batch", arg, 1, 1 << 20);
		break;
	case O_LOGITS:
		opt.logits = parse_logits(arg);
		break;
	case O_NO_COMPRESS:
		opt.state.no_compress = 1;
		break;
	case O_TOP:
		opt.top = (size_t)cli_int("--top", arg, 1, QWEN_VOCAB_MAX);
		break;
	}
}

static void
parse(int argc, char *argv[], struct cli_intake *in)
{
	const char *arg;
	int c, operand;

	while ((c = cli_getopt(argc, argv, options, NULL, &arg,
	    &operand)) != -1)
		parse_one(c, arg, in);
	cli_no_operands(argc, argv, operand);
	if (opt.logits == QWEN_LOGITS_NONE) {
		if (opt.format == QWEN_FORMAT_RAW || opt.top > 0)
			cli_usage("%s is about logits; add --logits=last or "
			    "--logits=all", opt.top > 0 ? "--top" : "-f raw");
		if (opt.output == NULL && opt.format != QWEN_FORMAT_CBOR)
			cli_usage("a state has no other form than cbor");
	}
	if (opt.format == QWEN_FORMAT_RAW && opt.top > 0)
		cli_usage("raw rows are whole rows: --top needs another -f");
}

/* What the evaluation calls back with. */
struct rows {
	struct qwen_writer	*w;
	size_t			 n_vocab;
};

static int
write_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct rows *r = arg;
	int rc;

	rc = opt.top > 0 ?
	    qwen_write_top(r->w, pos, logits, r->n_vocab, opt.top, err) :
	    qwen_write_logits(r->w, pos, logits, r->n_vocab, err);
	if (rc < 0)
		cli_die_err("stdout", err);
	return 0;
}

/* A state that nothing is added to has one row: the one it holds. */
static void
old_row(struct rows *r, const struct qwen_session *s)
{
	const float *row = qwen_session_logits(s);
	struct qwen_err err;

	if (opt.logits == QWEN_LOGITS_LAST && row != NULL)
		write_row(r, qwen_session_n_tokens(s) - 1, row, &err);
}

/* r is NULL where no row is wanted. */
static void
evaluate(struct cli_intake *in, struct rows *r)
{
	struct qwen_eval how = {
		.logits = opt.logits == QWEN_LOGITS_ALL ? QWEN_LOGITS_ALL :
		    QWEN_LOGITS_LAST,
		.batch = opt.batch, .row = r != NULL ? write_row : NULL,
		.arg = r,
	};

	if (in->n == 0 && r != NULL)
		old_row(r, in->session);
	cli_prefill(in, &how);
}

static void
begin_stream(struct qwen_writer *w, enum qwen_stream_kind kind,
    const struct qwen_model *m)
{
	struct qwen_header h;
	struct qwen_err err;

	cli_header(&h, kind, m);
	if (qwen_write_header(w, &h, &err) < 0)
		cli_die_err("stdout", &err);
}

/* After the rename: the file may be opened. */
static void
tell_ready(struct qwen_writer *w, const struct cli_intake *in,
    const struct qwen_fp *fp)
{
	struct qwen_err err;

	if (qwen_write_ready(w, opt.output, qwen_session_n_tokens(in->session),
	    fp, &err) < 0)
		cli_die_err("stdout", &err);
}

/* stdout carries rows, and with -o the news that the file is there. */
static void
run_with_rows(struct cli_intake *in, struct qwen_model *m)
{
	struct rows r = { .n_vocab = qwen_model_n_vocab(m) };
	struct cli_output *out = NULL;
	struct qwen_fp fp;

	if (opt.output != NULL)
		out = cli_output_open(opt.output);
	r.w = cli_writer(STDOUT_FILENO, opt.format);
	begin_stream(r.w, QWEN_STREAM_LOGITS, m);
	evaluate(in, &r);
	if (out != NULL) {
		cli_save(in, cli_output_fd(out), opt.output, &opt.state, &fp);
		cli_output_commit(out);
		tell_ready(r.w, in, &fp);
	}
	qwen_writer_free(r.w);
}

/* stdout carries the news alone, for which a terminal has no use. */
static void
run_to_file(struct cli_intake *in, struct qwen_model *m)
{
	struct cli_output *out = cli_output_open(opt.output);
	struct qwen_writer *w;
	struct qwen_fp fp;

	evaluate(in, NULL);
	cli_save(in, cli_output_fd(out), opt.output, &opt.state, &fp);
	cli_output_commit(out);
	if (!opt.format_given && isatty(STDOUT_FILENO))
		return;
	w = cli_writer(STDOUT_FILENO, opt.format);
	begin_stream(w, QWEN_STREAM_TOKENS, m);
	tell_ready(w, in, &fp);
	qwen_writer_free(w);
}

/* stdout carries the state. */
static void
run_in_band(struct cli_intake *in)
{
	evaluate(in, NULL);
	cli_save(in, STDOUT_FILENO, "stdout", &opt.state, NULL);
}

int
main(int argc, char *argv[])
{
	struct cli_intake in = { 0 };
	struct qwen_model *m;
	int status;

	cli_init("qprefill", usage);
	parse(argc, argv, &in);
	if (!opt.format_given && (opt.output == NULL ||
	    opt.logits != QWEN_LOGITS_NONE))
		cli_no_binary_tty();
	m = cli_model_open(opt.model, opt.n_threads);
	cli_tell_model(m);
	cli_intake(&in, m);
	if (in.n == 0 && !in.restored)
		die("no token and no state: nothing to do");
	if (opt.logits != QWEN_LOGITS_NONE)
		run_with_rows(&in, m);
	else if (opt.output != NULL)
		run_to_file(&in, m);
	else
		run_in_band(&in);
	cli_tell_stats(m);
	/* the next tool waits for the end of stdout, not for ours */
	status = cli_finish();
	cli_intake_fini(&in);
	qwen_model_close(m);
	return status;
}
