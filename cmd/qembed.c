/* SPDX-License-Identifier: ISC */
/* qembed.c - read texts, write their embedding vectors, one per line. */
#include <stdlib.h>
#include <string.h>

#include "tool/texts.h"

enum { FORMAT_JSON, FORMAT_TEXT, FORMAT_F32 };
enum { POOL_MEAN, POOL_CLS, POOL_LAST };

static struct {
	int		 tokens;
	int		 pooling;		/* POOL_... */
	int		 no_eos;
	int		 format;
} opt;

/* A text, from reading it to writing its vector. */
struct text {
	struct tool_text	 item;
	struct qwen_vector_request q;
	struct tool_text_sum	 pooled;
};

static struct run {
	struct tool_texts	 in;
	struct qwen_vectors	 how;
	struct qwen_reader	*reader;
	struct qwen_ids		 ids;		/* of the text being read, with
						   --tokens */
	size_t			 cap_ids;
	int			 has_text;	/* ids belongs to a text, even
						   if it is empty */
	uint64_t		 n_texts;
	size_t			 n_numbers;	/* per vector */
} run = { .in = { .work.n_sequences = TOOL_SEQUENCES, .text = "text",
    .hint = "text; --tokens reads streams, --force reads it as text" } };

/* --------------------------------------------------------- the command line */

static const struct cli_opt options[] = {
	CLI_GROUP("input:"),
	TOOL_OPT_MODEL(&run.in.work.path),
	CLI_TEXT(0, "instruct", "task", &run.how.instruct,
	    "put this instruction before each text, as for queries"),
	CLI_FLAG(0, "requests", &run.in.requests,
	    "input is JSON requests, one per line; so are the results"),
	CLI_FLAG(0, "tokens", &opt.tokens,
	    "input is a stream of tokens, as qtok -0 writes it"),
	TOOL_OPT_STRICT(&run.in.unknown.strict),
	CLI_OPT_SPECIAL(&run.how.encode),
	TOOL_OPT_NFC,
	CLI_WORD(0, "eos", "on | off", CLI_P(int, &opt.no_eos), "on off",
	    "whether to end each text with EOS (default as the model says)"),
	CLI_FLAG(0, "truncate", &run.in.truncate,
	    "cut texts that are longer than the context"),
	TOOL_OPT_FORCE_TEXT,

	CLI_GROUP("output:"),
	TOOL_OPT_OUTPUT(&run.in.output),
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
	TOOL_OPT_WORK(&run.in.work),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qembed",
	.about = "compute embeddings (vectors) of texts, one per line",
	.usage = "[options] [file]",
	.options = options, .max = 1,
};

static void
parse(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv);

	if (run.in.requests && opt.tokens)
		cli_usage("--requests reads JSON lines: not with --tokens");
	if (run.in.requests && opt.format != FORMAT_JSON)
		cli_usage("--requests prints JSON lines: not with another -f");
	if (opt.tokens && run.how.instruct != NULL)
		cli_usage("--instruct applies to texts: not with --tokens");
	if (opt.format == FORMAT_F32 && run.in.output == NULL && !tool_force)
		cli_no_binary_tty();
	tool_texts_check(&run.in, n > 0 ? argv[1] : NULL);
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
		run.in.note = "the model names no pooling; using the last "
		    "token (--pooling)";
}

static void
open_model(void)
{
	struct qwen_embedding *e = &run.how.how, from_file;
	const struct qwen_gguf *g;
	const char *path;

	tool_texts_open_model(&run.in);
	g = run.in.work.gguf;
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
	if (e->dimensions > qwen_model_n_embd(run.in.work.model))
		cli_usage("--dimensions: %zu is more than the model's %zu",
		    e->dimensions, qwen_model_n_embd(run.in.work.model));
	run.how.tok = run.in.work.tok;
	run.how.n_vocab = qwen_model_n_vocab(run.in.work.model);
	run.how.unknown = &run.in.unknown;
	run.how.cut = run.in.cut;
}

/* -------------------------------------------------------------------- texts */

static struct text *
new_text(uint64_t number)
{
	struct text *x = cli_check_alloc(calloc(1, sizeof *x));

	tool_texts_begin(&run.in, &x->item, &x->q.refusal, number, sizeof *x);
	run.n_texts++;
	return x;
}

/* Start to evaluate the text's tokens. */
static struct tool_text *
begin_text(struct text *x)
{
	run.in.n_cut += (uint64_t)x->q.is_cut;
	if (x->q.refusal.err.code == 0)
		tool_text_sum_add_job(&x->pooled, &x->item, &run.how.how,
		    &x->q.text);
	return &x->item;
}

static struct tool_text *
take_line(const struct tool_line *line)
{
	struct text *x = new_text(run.in.lines.line);

	cli_must(NULL, (run.in.requests ? qwen_vector_request_parse :
	    qwen_vector_request_text)(&x->q, &run.how, line->s, line->n,
	    &cli_err));
	return begin_text(x);
}

/*
 * Make a text of the ids read so far: those up to the end of a document or of
 * the stream, or up to the next header.
 */
static struct tool_text *
make_text(void)
{
	struct text *x = new_text(run.n_texts + 1);
	struct qwen_ids ids = run.ids;

	run.ids = (struct qwen_ids){ 0 };
	run.cap_ids = 0;
	run.has_text = 0;
	cli_must(NULL, qwen_vector_request_ids(&x->q, &run.how, &ids,
	    &cli_err));
	return begin_text(x);
}

static struct tool_text *
take_document(void)
{
	struct qwen_header self;
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS, .lines = 1,
	    .self = &self };
	struct qwen_record rec;

	if (run.reader == NULL) {
		tool_header_init(&self, o.kinds, run.in.work.model);
		cli_must(run.in.lines.name, qwen_reader_open(&run.reader,
		    run.in.lines.fd, &o, &cli_err));
	}
	while (cli_must(run.in.lines.name, qwen_reader_next(run.reader, &rec,
	    &cli_err)) > 0) {
		if (rec.kind == QWEN_REC_TOKENS && rec.n > 0) {
			cli_grow(&run.ids.id, &run.cap_ids, run.ids.n + rec.n,
			    sizeof *run.ids.id);
			memcpy(run.ids.id + run.ids.n, rec.ids,
			    rec.n * sizeof *rec.ids);
			run.ids.n += rec.n;
			run.has_text = 1;
		} else if (rec.kind == QWEN_REC_END ||
		    (rec.kind == QWEN_REC_HEADER && run.has_text))
			return make_text();
	}
	return run.has_text ? make_text() : NULL;
}

/* ------------------------------------------------------------------ vectors */

/* Make the vector at once, to free the hidden states. */
static void
end_text(struct tool_text_sum *p)
{
	size_t n = qwen_model_n_embd(run.in.work.model);

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
		qwen_text_fmt(t, "%s%.9g", i > 0 ? between : "", (double)v[i]);
}

static void
put_vector(struct tool_text *item, struct qwen_text *t)
{
	struct text *x = (struct text *)(void *)item;

	if (run.in.requests) {
		if (tool_begin_result(t, item->line, x->q.id, item->no)) {
			qwen_text_fmt(t, ",\"tokens\":%zu,\"embedding\":[",
			    x->q.text.n);
			add_numbers(t, x, ",");
			qwen_text_str(t, "]}\n");
		}
	} else if (opt.format == FORMAT_JSON) {
		qwen_text_str(t, "[");
		add_numbers(t, x, ",");
		qwen_text_str(t, "]\n");
	} else {
		add_numbers(t, x, " ");
		qwen_text_str(t, opt.format == FORMAT_TEXT ? "\n" : "");
	}
	free(x->pooled.result);
	qwen_vector_request_fini(&x->q);
	free(x);
}

int
main(int argc, char *argv[])
{
	parse(argc, argv);
	run.in.line = take_line;
	run.in.stream = opt.tokens ? take_document : NULL;
	run.in.end = end_text;
	run.in.put = put_vector;
	return tool_texts_run(&run.in, open_model);
}
