/* SPDX-License-Identifier: ISC */
/* qembed.c - read texts, write their embedding vectors, one per line. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"
#include "text/request/request.h"
#include "tool/tool.h"

enum { FORMAT_JSON, FORMAT_TEXT, FORMAT_F32 };
enum { POOL_MEAN, POOL_CLS, POOL_LAST };

static struct {
	const char	*output;		/* NULL: stdout */
	int		 requests, tokens, truncate;
	int		 pooling;		/* POOL_... */
	int		 no_eos;
	int		 format;
} opt;

/* A text, from reading it to writing its vector. */
struct text {
	struct tool_input	 item;
	struct qwen_vector_request q;
	struct tool_text_sum	 pooled;
};

static struct run {
	struct tool_work	 work;
	struct tool_queue	 queue;
	struct qwen_vectors	 how;
	struct tool_lines	 lines;		/* with --tokens only the
						   descriptor is used */
	struct qwen_reader	*reader;
	struct qwen_ids		 ids;		/* of the text being read, with
						   --tokens */
	size_t			 cap_ids;
	int			 has_text;	/* ids belongs to a text, even
						   if it is empty */
	uint64_t		 n_texts, n_cut;
	size_t			 n_numbers;	/* per vector */
	struct qwen_unknown	 unknown;
	const char		*note;		/* note on the model, to print
						   with the first text; or
						   NULL */
	struct cli_output	*out;
} run = { .work.n_sequences = TOOL_SEQUENCES };

/* --------------------------------------------------------- the command line */

static const struct cli_opt options[] = {
	CLI_GROUP("input:"),
	TOOL_OPT_MODEL(&run.work.path),
	CLI_TEXT(0, "instruct", "task", &run.how.instruct,
	    "put this instruction before each text, as for queries"),
	CLI_FLAG(0, "requests", &opt.requests,
	    "input is JSON requests, one per line; so are the results"),
	CLI_FLAG(0, "tokens", &opt.tokens,
	    "input is a stream of tokens, as qtok -0 writes it"),
	TOOL_OPT_STRICT(&run.unknown.strict),
	CLI_OPT_SPECIAL(&run.how.encode),
	TOOL_OPT_NFC,
	CLI_WORD(0, "eos", "on | off", CLI_P(int, &opt.no_eos), "on off",
	    "whether to end each text with EOS (default as the model says)"),
	CLI_FLAG(0, "truncate", &opt.truncate,
	    "cut texts that are longer than the context"),
	TOOL_OPT_FORCE_TEXT,

	CLI_GROUP("output:"),
	TOOL_OPT_OUTPUT(&opt.output),
	CLI_OPT_FORMAT(&opt.format, "json text f32",
	    "format of the vectors; f32 is bare numbers"),
	CLI_WORD(0, "pooling", "pooling", CLI_P(int, &opt.pooling),
	    "mean cls last", "make the vector from these token "
	    "states; cls is the first token (default as the model says)"),
	CLI_INT(0, "dimensions", "n", &run.how.how.dimensions, 1, 1 << 24,
	    "print only the first N numbers of each vector"),
	CLI_FLAG(0, "no-norm", &run.how.how.unscaled,
	    "do not scale vectors to length 1"),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_WORK(&run.work),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qembed",
	.about = "compute embeddings (vectors) of texts, one per line",
	.usage = "[options] [file]",
	.options = options, .max = 1,
};

static void
parse(int argc, char *argv[], const char **file)
{
	int n = cli_begin(&tool, argc, argv);

	*file = n > 0 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL;
	if (opt.requests && opt.tokens)
		cli_usage("--requests reads JSON lines: not with --tokens");
	if (opt.requests && opt.format != FORMAT_JSON)
		cli_usage("--requests prints JSON lines: not with another -f");
	if (opt.tokens && run.how.instruct != NULL)
		cli_usage("--instruct applies to texts: not with --tokens");
	if (run.unknown.strict && !opt.requests)
		cli_usage("--strict needs --requests");
	tool_store_from_env(&run.work.at);
	if (opt.format == FORMAT_F32 && opt.output == NULL && !tool_force)
		cli_no_binary_tty();
	if (*file == NULL)
		cli_need_stdin();
}

/* ---------------------------------------------------------------- the model */

/*
 * Set the pooling by --pooling or the model file; note a default for a file
 * that names none.
 */
static void
choose_pooling(struct qwen_embedding *e, const char *path)
{
	static const enum qwen_pooling chosen[] = { QWEN_POOLING_MEAN,
	    QWEN_POOLING_CLS, QWEN_POOLING_LAST };

	if (cli_given(&opt.pooling)) {
		e->pooling = chosen[opt.pooling];
		return;
	}
	if (e->pooling == QWEN_POOLING_RANK)
		die("%s: this model ranks documents: use qrerank, or --pooling",
		    path);
	if (e->pooling == QWEN_POOLING_NONE)
		run.note = "the model names no pooling; using the last "
		    "token (--pooling)";
}

static void
open_model(void)
{
	struct qwen_embedding *e = &run.how.how, from_file;
	const struct qwen_gguf *g;
	const char *path;

	tool_work_open_model(&run.work);
	g = run.work.gguf;
	path = qwen_gguf_path(g, 0);
	cli_must(path, qwen_embedding_read(&from_file, g, &cli_err));
	from_file.dimensions = e->dimensions;
	from_file.unscaled = e->unscaled;
	*e = from_file;
	choose_pooling(e, path);
	if (cli_given(&opt.no_eos))
		e->last = opt.no_eos ? -1 : qwen_embedding_eos(g);
	if (cli_given(&opt.no_eos) && !opt.no_eos && e->last < 0)
		die("%s: the model names no EOS token: --eos on is not "
		    "possible", path);
	if (e->dimensions > qwen_model_n_embd(run.work.model))
		cli_usage("--dimensions: %zu is more than the model's %zu",
		    e->dimensions, qwen_model_n_embd(run.work.model));
	run.how.tok = run.work.tok;
	run.how.n_vocab = qwen_model_n_vocab(run.work.model);
	run.how.unknown = &run.unknown;
	run.how.cut = opt.truncate ? qwen_model_n_ctx(run.work.model) : 0;
}

/* -------------------------------------------------------------------- texts */

static struct text *
new_text(uint64_t number)
{
	struct text *x = cli_check_alloc(calloc(1, sizeof *x));

	x->item = (struct tool_input){ .queue = &run.queue, .no = &x->q.refusal,
	    .line = number, .bytes = sizeof *x };
	/* not before the first text, so that errors in the input come alone */
	if (run.note != NULL)
		cli_note("%s: %s", qwen_gguf_path(run.work.gguf, 0), run.note);
	run.note = NULL;
	run.n_texts++;
	return x;
}

/* Start to evaluate the text's tokens. */
static void
begin_text(struct text *x, struct tool_input **out)
{
	run.n_cut += (uint64_t)x->q.is_cut;
	if (x->q.refusal.err.code == 0)
		tool_text_sum_add_job(&x->pooled, &x->item, &run.how.how,
		    &x->q.text);
	*out = &x->item;
}

static int
next_line(void *arg, struct tool_input **out)
{
	struct tool_line line;
	struct text *x;

	(void)arg;
	if (!tool_lines_next(&run.lines, &line))
		return 0;
	if (!tool_force)
		tool_lines_check(&run.lines, &line, "text; --tokens reads "
		    "streams, --force reads it as text");
	if (opt.requests && tool_line_is_blank(&line))
		return 1;
	x = new_text(run.lines.line);
	cli_must(NULL, (opt.requests ? qwen_vector_request_parse :
	    qwen_vector_request_text)(&x->q, &run.how, line.s, line.n,
	    &cli_err));
	begin_text(x, out);
	return 1;
}

/*
 * Make a text of the ids read so far: those up to the end of a document or of
 * the stream, or up to the next header.
 */
static void
make_text(struct tool_input **out)
{
	struct text *x = new_text(run.n_texts + 1);
	struct qwen_ids ids = run.ids;

	run.ids = (struct qwen_ids){ 0 };
	run.cap_ids = 0;
	run.has_text = 0;
	cli_must(NULL, qwen_vector_request_ids(&x->q, &run.how, &ids,
	    &cli_err));
	begin_text(x, out);
}

static int
next_stream(void *arg, struct tool_input **out)
{
	struct qwen_record rec;
	int got;

	(void)arg;
	while ((got = cli_must(run.lines.name, qwen_reader_next(run.reader,
	    &rec, &cli_err))) > 0) {
		if (rec.kind == QWEN_REC_TOKENS && rec.n > 0) {
			cli_grow(&run.ids.id, &run.cap_ids, run.ids.n + rec.n,
			    sizeof *run.ids.id);
			memcpy(run.ids.id + run.ids.n, rec.ids,
			    rec.n * sizeof *rec.ids);
			run.ids.n += rec.n;
			run.has_text = 1;
		} else if (rec.kind == QWEN_REC_END ||
		    (rec.kind == QWEN_REC_HEADER && run.has_text)) {
			make_text(out);
			return 1;
		}
	}
	if (!run.has_text)
		return 0;
	make_text(out);
	return 1;
}

static int
waiting(void *arg)
{
	(void)arg;
	return tool_lines_waiting(&run.lines);
}

static void
open_stream(void)
{
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS, .lines = 1 };
	struct qwen_header self;

	tool_header_init(&self, QWEN_STREAM_TOKENS, run.work.model);
	o.self = &self;
	cli_must(run.lines.name, qwen_reader_open(&run.reader, run.lines.fd,
	    &o, &cli_err));
}

/* ------------------------------------------------------------------ vectors */

/* Make the vector at once, to free the hidden states. */
static void
end_text(void *arg, struct tool_text_sum *p)
{
	size_t n = qwen_model_n_embd(run.work.model);

	(void)arg;
	p->result = cli_check_alloc(malloc(n * sizeof(float)));
	qwen_embedding_finish(&run.how.how, p->sum, p->n, n, p->result,
	    &run.n_numbers);
}

static void
add_numbers(struct qwen_text *t, const struct text *x, const char *between)
{
	const float *v = x->pooled.result;
	size_t i, n = run.n_numbers;

	if (opt.format == FORMAT_F32) {
		qwen_text_add(t, v, n * sizeof *v);
		return;
	}
	for (i = 0; i < n; i++)
		qwen_text_fmt(t, "%s%.9g", i > 0 ? between : "",
		    (double)v[i]);
}

static void
add_result(struct qwen_text *t, const struct text *x)
{
	if (!tool_begin_result(t, x->item.line, x->q.id, &x->q.refusal))
		return;
	qwen_text_fmt(t, ",\"tokens\":%zu,\"embedding\":[", x->q.text.n);
	add_numbers(t, x, ",");
	qwen_text_str(t, "]}\n");
}

/*
 * Write a vector.  A refused text ends the program without --requests, since a
 * missing line would assign later vectors to the wrong texts.
 */
static void
put_vector(void *arg, struct tool_input *item)
{
	struct text *x = (struct text *)(void *)item;
	struct qwen_text t = { 0 };

	(void)arg;
	if (!opt.requests && x->q.refusal.err.code != 0)
		die("%s: %s %llu: %s", run.lines.name, opt.tokens ? "text" :
		    "line", (unsigned long long)item->line,
		    x->q.refusal.err.msg);
	if (opt.requests)
		add_result(&t, x);
	else if (opt.format == FORMAT_JSON) {
		qwen_text_str(&t, "[");
		add_numbers(&t, x, ",");
		qwen_text_str(&t, "]\n");
	} else {
		add_numbers(&t, x, " ");
		qwen_text_str(&t, opt.format == FORMAT_TEXT ? "\n" : "");
	}
	cli_write_all(cli_output_fd(run.out), cli_output_name(run.out), &t);
	qwen_text_fini(&t);
	free(x->pooled.result);
	qwen_vector_request_fini(&x->q);
	free(x);
}

/* Return the number of texts, for the progress line; 0 if unknown. */
static uint64_t
count_texts(void)
{
	if (opt.tokens || cli_quiet || !isatty(STDERR_FILENO))
		return 0;
	return tool_lines_count(run.lines.fd);
}

static void
embed_all(void)
{
	double start = cli_now();

	run.queue.work = &run.work;
	run.queue.next = opt.tokens ? next_stream : next_line;
	run.queue.waiting = waiting;
	run.queue.end = end_text;
	run.queue.put = put_vector;
	cli_progress_start("texts", count_texts());
	tool_queue_run(&run.queue);
	cli_progress_end();
	tool_report_unknown(&run.unknown);
	if (opt.requests)
		tool_warn_failed(&run.work, 0, run.queue.n_done);
	if (run.n_cut > 0)
		cli_note("%s cut to the context of %zu tokens",
		    cli_count(run.n_cut, "text"), run.how.cut);
	tool_report_results(&run.queue, "text", start);
}

int
main(int argc, char *argv[])
{
	const char *file;
	int status;

	parse(argc, argv, &file);
	tool_lines_open(&run.lines, file);
	open_model();
	if (opt.tokens)
		open_stream();
	tool_work_open(&run.work);
	run.out = cli_output_open(opt.output);
	embed_all();
	cli_output_commit(run.out);
	status = cli_finish();
	qwen_reader_close(run.reader);
	tool_lines_fini(&run.lines);
	free(run.ids.id);
	tool_work_close(&run.work);
	return status;
}
