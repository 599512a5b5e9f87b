/* SPDX-License-Identifier: ISC */
/* qscore.c - how likely given tokens are: of texts, and of lines of requests. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "cli/batch.h"
#include "cli/cli.h"
#include "cli/score.h"

static const char usage[] =
    "qscore [-qv] [-m model] [-o output] [-f format] [-t threads]\n"
    "              [--context n] [--stride n] [--each] [--bos] [--special]\n"
    "              [--tokens] [--mem size] [--max-sequences n] [--batch n]\n"
    "              [--numerics version] [file ...]\n"
    "       qscore --requests [-qv] [-m model] [-o output] [-t threads]\n"
    "              [--context n] [--stride n] [--each] [--bos] [--special]\n"
    "              [--mem size] [--max-sequences n] [--batch n]\n"
    "              [--numerics version] [file]\n";

enum { O_BATCH = 256, O_BOS, O_CONTEXT, O_EACH, O_MAX_SEQUENCES, O_MEM,
    O_NUMERICS, O_REQUESTS, O_SPECIAL, O_STRIDE, O_TOKENS };

enum { DEFAULT_SEQUENCES = 32, DEFAULT_CONTEXT = 2048 };

static const struct cli_option options[] = {
	{ 'f', "format", 1 },
	{ 'm', "model", 1 },
	{ 'o', "output", 1 },
	{ 't', "threads", 1 },
	{ O_BATCH, "batch", 1 },
	{ O_BOS, "bos", 0 },
	{ O_CONTEXT, "context", 1 },
	{ O_EACH, "each", 0 },
	{ O_MAX_SEQUENCES, "max-sequences", 1 },
	{ O_MEM, "mem", 1 },
	{ O_NUMERICS, "numerics", 1 },
	{ O_REQUESTS, "requests", 0 },
	{ O_SPECIAL, "special", 0 },
	{ O_STRIDE, "stride", 1 },
	{ O_TOKENS, "tokens", 0 },
	{ 0, NULL, 0 },
};

static struct {
	const char	*model;
	const char	*output;		/* NULL: stdout */
	const char	*mem_text;
	uint64_t	 mem;
	size_t		 n_sequences, n_pass, context, stride;
	int		 n_threads, format_given, requests, tokens;
	unsigned	 numerics;
	char		**files;
	int		 n_files;
} opt = { .n_sequences = DEFAULT_SEQUENCES };

struct run {
	struct cli_score	 score;
	struct qwen_model	*model;
	struct qwen_tok		*tok;
	struct qwen_cache	*cache;
	struct cli_output	*output;
};

/* --------------------------------------------------------- the command line */

static void
parse_one(int c, const char *arg, struct cli_score *r)
{
	switch (c) {
	case 'f':
		r->json = cli_format(arg, 1 << QWEN_FORMAT_TEXT |
		    1 << QWEN_FORMAT_JSON) == QWEN_FORMAT_JSON;
		opt.format_given = 1;
		break;
	case 'm':
		opt.model = arg;
		break;
	case 'o':
		opt.output = strcmp(arg, "-") == 0 ? NULL : arg;
		break;
	case 't':
		opt.n_threads = cli_threads(arg);
		break;
	case O_BATCH:
		opt.n_pass = (size_t)cli_int("--batch", arg, 1, 1 << 20);
		break;
	case O_BOS:
		r->bos = 1;
		break;
	case O_CONTEXT:
		opt.context = (size_t)cli_int("--context", arg, 2, 1 << 30);
		break;
	case O_EACH:
		r->each = 1;
		break;
	case O_MAX_SEQUENCES:
		opt.n_sequences = (size_t)cli_int("--max-sequences", arg, 1,
		    4096);
		break;
	case O_MEM:
		opt.mem_text = arg;
		opt.mem = cli_bytes("--mem", arg);
		break;
	case O_NUMERICS:
		opt.numerics = cli_numerics(arg);
		break;
	case O_REQUESTS:
		opt.requests = 1;
		break;
	case O_SPECIAL:
		r->encode = QWEN_TOK_SPECIAL;
		break;
	case O_STRIDE:
		opt.stride = (size_t)cli_int("--stride", arg, 1, 1 << 30);
		break;
	case O_TOKENS:
		opt.tokens = 1;
		break;
	}
}

static void
check_options(const struct cli_score *r)
{
	int i, stdin_used = opt.n_files == 0;

	if (opt.requests && opt.n_files > 1)
		cli_usage("unexpected argument: %s", opt.files[1]);
	if (opt.requests && opt.tokens)
		cli_usage("--requests are lines of JSON, not --tokens");
	if (opt.requests && opt.format_given && !r->json)
		cli_usage("--requests: results are lines of JSON, not text");
	if (opt.context > 0 && opt.stride >= opt.context)
		cli_usage("--stride: %zu is not below the context of %zu",
		    opt.stride, opt.context);
	for (i = 0; i < opt.n_files; i++)
		stdin_used |= strcmp(opt.files[i], "-") == 0;
	if (stdin_used)
		cli_need_stdin();
}

static void
parse(int argc, char *argv[], struct run *r)
{
	const char *arg;
	int c, operand;

	while ((c = cli_getopt(argc, argv, options, NULL, &arg,
	    &operand)) != -1)
		parse_one(c, arg, &r->score);
	opt.files = argv + operand;
	opt.n_files = argc - operand;
	check_options(&r->score);
}

/* -------------------------------------------------------- before and after */

/* The token that texts begin with: its own key, or the one they end with. */
static int32_t
first_token(const struct qwen_gguf *g, size_t n_vocab)
{
	static const char *const keys[] = { "tokenizer.ggml.bos_token_id",
	    "tokenizer.ggml.eos_token_id" };
	uint64_t id;
	size_t i;

	for (i = 0; i < 2; i++) {
		if (qwen_gguf_get_u64(g, keys[i], 0, &id, NULL) == 1 &&
		    id < n_vocab)
			return (int32_t)id;
	}
	return -1;
}

static void
set_context(struct cli_score *r, size_t n_ctx)
{
	if (opt.context > n_ctx)
		cli_usage("--context: %zu is more than the model's %zu",
		    opt.context, n_ctx);
	r->context = opt.context > 0 ? opt.context :
	    opt.requests || n_ctx < DEFAULT_CONTEXT ? n_ctx : DEFAULT_CONTEXT;
	if (opt.stride >= r->context)
		cli_usage("--stride: %zu is not below the context of %zu",
		    opt.stride, r->context);
	r->stride = opt.stride > 0 ? opt.stride : (r->context + 1) / 2;
}

static void
open_model(struct run *r)
{
	struct cli_score *s = &r->score;
	const struct qwen_gguf *g;
	struct qwen_err err;

	r->model = cli_model_open(opt.model, opt.n_threads, opt.numerics);
	cli_tell_model(r->model);
	g = qwen_model_gguf(r->model);
	if (qwen_tok_open(&r->tok, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &err) < 0 || qwen_tok_decoder_new(&s->spell, r->tok,
	    QWEN_TOK_BYTES | QWEN_TOK_SHOW_SPECIAL, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	s->tok = r->tok;
	s->n_vocab = qwen_model_n_vocab(r->model);
	s->first = first_token(g, s->n_vocab);
	if (s->bos && s->first < 0)
		die("%s: names no token that texts begin with; not --bos",
		    qwen_gguf_path(g, 0));
	set_context(s, qwen_model_n_ctx(r->model));
}

static void
open_work(struct run *r)
{
	struct qwen_work_opts o = {
		.model = r->model, .n_sequences = opt.n_sequences,
		.n_pass = opt.n_pass,
	};
	uint64_t least = qwen_cache_need(r->model, 1);
	struct qwen_err err;

	if (opt.mem_text != NULL && opt.mem < least)
		cli_usage("--mem: %s is too little for one sequence; the least "
		    "is %llu", opt.mem_text, (unsigned long long)least);
	if (qwen_cache_new(&r->cache, r->model, opt.mem, &err) < 0)
		cli_die_err(NULL, &err);
	o.cache = r->cache;
	if (qwen_work_new(&r->score.work, &o, &err) < 0)
		cli_die_err(NULL, &err);
	/* enough to find what several begin with */
	r->score.n_ahead = 16 * opt.n_sequences + 64;
}

static void
open_output(struct run *r)
{
	struct cli_results *out = &r->score.out;

	out->fd = STDOUT_FILENO;
	out->name = "stdout";
	if (opt.output == NULL)
		return;
	r->output = cli_output_open(opt.output);
	out->fd = cli_output_fd(r->output);
	out->name = opt.output;
}

static int
open_input(const char *path, const char **name)
{
	int fd, is_stdin = path == NULL || strcmp(path, "-") == 0;

	*name = is_stdin ? "stdin" : path;
	fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		warn("%s: %s", path, strerror(errno));
	return fd;
}

/* -------------------------------------------------------------------- texts */

struct tokens {
	int32_t	*id;
	size_t	 n, cap;
};

static void
append(struct tokens *t, const struct qwen_record *rec)
{
	int32_t *more;

	if (rec->n == 0)
		return;
	if (rec->n > t->cap - t->n) {
		t->cap = 2 * (t->n + rec->n);
		if ((more = realloc(t->id, t->cap * sizeof *more)) == NULL)
			die("out of memory");
		t->id = more;
	}
	memcpy(t->id + t->n, rec->ids, rec->n * sizeof *t->id);
	t->n += rec->n;
}

/* A stream of tokens, all of it one text. */
static int
read_tokens(const struct run *r, int fd, struct tokens *t,
    struct qwen_err *err)
{
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS };
	struct qwen_header self;
	struct qwen_reader *in;
	struct qwen_record rec;
	int got;

	cli_header(&self, QWEN_STREAM_TOKENS, r->model);
	o.self = &self;
	if (qwen_reader_open(&in, fd, &o, err) < 0)
		return -1;
	while ((got = qwen_reader_next(in, &rec, err)) > 0) {
		if (rec.kind == QWEN_REC_TOKENS)
			append(t, &rec);
	}
	qwen_reader_close(in);
	return got;
}

static int
read_text(const struct run *r, int fd, const char *name, struct tokens *t,
    struct qwen_err *err)
{
	size_t len;
	char *text = cli_read_fd(fd, name, &len);
	int rc = qwen_tok_encode(r->tok, text, len, r->score.encode, &t->id,
	    &t->n, err);

	free(text);
	return rc;
}

static void
add_file(struct run *r, const char *path)
{
	struct cli_scored *q;
	struct qwen_err err;
	struct tokens t = { 0 };
	const char *name;
	int fd = open_input(path, &name), rc;

	if (fd == -1)
		return;
	rc = opt.tokens ? read_tokens(r, fd, &t, &err) :
	    read_text(r, fd, name, &t, &err);
	if (fd != STDIN_FILENO)
		close(fd);
	if (rc < 0) {
		free(t.id);
		warn("%s: %s", name, err.msg);
		return;
	}
	q = cli_scored_new();
	q->name = name;
	cli_scored_text(&r->score, q, t.id, t.n);
	if (q->n < 2)
		cli_scored_fail(q, "invalid_request",
		    "%zu tokens: there is nothing to score", q->n);
	cli_score_add(&r->score, q);
}

static void
write_text(struct run *r, struct cli_text *t)
{
	cli_results_write(&r->score.out, t);
	cli_text_fini(t);
}

static void
score_files(struct run *r)
{
	struct cli_text t = { 0 };
	int i;

	if (!r->score.json && !r->score.each) {
		cli_text_fmt(&t, "%10s %10s %10s %12s %9s %9s  %s\n",
		    "tokens", "scored", "nats/token", "perplexity", "+-",
		    "bits/byte", "file");
		write_text(r, &t);
	}
	for (i = 0; i < (opt.n_files > 0 ? opt.n_files : 1); i++) {
		add_file(r, opt.n_files > 0 ? opt.files[i] : NULL);
		cli_score_finish(&r->score);
	}
	if (opt.n_files < 2 || r->score.json || r->score.each ||
	    r->score.total.n == 0)
		return;
	t = (struct cli_text){ 0 };
	cli_score_line(&r->score, "total", &r->score.total, &t);
	write_text(r, &t);
}

static void
score_requests(struct run *r)
{
	struct cli_lines in = { 0 };
	struct cli_score *s = &r->score;

	in.fd = open_input(opt.n_files > 0 ? opt.files[0] : NULL, &in.name);
	if (in.fd == -1)
		return;
	cli_score_lines(s, &in);
	cli_lines_fini(&in);
	if (s->n_failed > 0)
		warn("%llu of %llu items failed; the first, line %llu: %s",
		    (unsigned long long)s->n_failed,
		    (unsigned long long)s->n_done,
		    (unsigned long long)s->failed_line, s->failed);
}

static void
tell(struct run *r, double start)
{
	struct qwen_work_stats st;
	double s = cli_now() - start;

	if (!cli_verbose)
		return;
	qwen_work_stats(r->score.work, &st);
	cli_note("%llu texts in %.3f s, %llu of them failed; %llu tokens scored, "
	    "%.1f tok/s", (unsigned long long)r->score.n_done, s,
	    (unsigned long long)r->score.n_failed,
	    (unsigned long long)st.scored, (double)st.scored / s);
	cli_note("%llu tokens read, %llu shared; %llu passes, %.3f s; %llu "
	    "times a sequence made room", (unsigned long long)st.read,
	    (unsigned long long)st.shared, (unsigned long long)st.n_passes,
	    st.pass_s, (unsigned long long)st.preempted);
	cli_tell_stats(r->model);
}

int
main(int argc, char *argv[])
{
	static struct run r;
	double start;
	int status;

	cli_init("qscore", usage);
	parse(argc, argv, &r);
	open_model(&r);
	open_work(&r);
	open_output(&r);
	start = cli_now();
	cli_progress_start("texts", 0);
	if (opt.requests)
		score_requests(&r);
	else
		score_files(&r);
	cli_progress_end();
	tell(&r, start);
	if (r.output != NULL)
		cli_output_commit(r.output);
	status = cli_finish();
	qwen_work_free(r.score.work);
	qwen_cache_free(r.cache);
	qwen_tok_decoder_free(r.score.spell);
	qwen_tok_close(r.tok);
	qwen_model_close(r.model);
	return status;
}
