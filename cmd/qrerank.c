/* SPDX-License-Identifier: ISC */
/*
 * qrerank.c - read documents, one per line; write how well each answers a
 * query.
 */
#include <stdlib.h>
#include <string.h>

#include "tool/texts.h"

static struct {
	const char	*instruct;
	size_t		 top;			/* 0: all, in the order of the
						   input */
	int		 json;
} opt;

/*
 * A document, or the documents of a request, from reading to writing the score.
 */
struct rank {
	struct tool_text	 item;
	struct qwen_rank_request q;
	struct tool_text_sum	*pooled;	/* one per document */
	char			*text;		/* of the document, with
						   --top */
	size_t			 n_text;
};

/* One of the best documents, with --top. */
struct best {
	double		 score;
	uint64_t	 line;
	char		*text;
	size_t		 n;
};

static struct run {
	struct tool_texts	 in;
	struct qwen_ranking	 how;
	struct qwen_reranker	*reranker;
	size_t			 n_classes, yes;	/* n_classes 0: compare
							   the logits of word */
	int32_t			 word[2];
	float			*hidden, *value;
	struct best		*best;
	size_t			 n_best, cap_best;
} run = { .in = { .work.n_sequences = TOOL_SEQUENCES, .text = "document",
    .hint = "text; --force reads it as text" } };

/* --------------------------------------------------------- the command line */

static const struct cli_opt options[] = {
	CLI_GROUP("input:"),
	TOOL_OPT_MODEL(&run.in.work.path),
	CLI_TEXT(0, "instruct", "task", &opt.instruct,
	    "instruction that says what is relevant, instead of the model's"),
	CLI_FLAG(0, "requests", &run.in.requests,
	    "input is JSON requests, each with its query; so are the results"),
	TOOL_OPT_STRICT(&run.in.unknown.strict),
	CLI_OPT_SPECIAL(&run.how.encode),
	TOOL_OPT_NFC,
	CLI_FLAG(0, "truncate", &run.in.truncate,
	    "cut documents that are too long for the context"),
	TOOL_OPT_FORCE_TEXT,

	CLI_GROUP("output:"),
	TOOL_OPT_OUTPUT(&run.in.output),
	CLI_OPT_FORMAT(&opt.json, "text json",
	    "format of the output; text prints only scores"),
	CLI_INT(0, "top", "n", &opt.top, 1, 1 << 24,
	    "print only the N best, best first, with their documents"),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_WORK(&run.in.work),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qrerank",
	.about = "score how well documents, one per line, answer a query",
	.usage = "[options] query [file]\n--requests [options] [file]",
	.options = options, .max = 2,
};

static void
parse(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv), first = run.in.requests ? 1 : 2;

	if (n < first - 1)
		cli_usage("no query given");
	if (n > first)
		cli_usage("unexpected argument: %s", argv[first + 1]);
	if (!run.in.requests)
		run.how.query = (struct qwen_str){ argv[1], strlen(argv[1]) };
	if (run.in.requests && opt.top > 0)
		cli_usage("--top applies to lines of documents: not with "
		    "--requests");
	if (run.in.requests && cli_given(&opt.json) && !opt.json)
		cli_usage("--requests prints JSON lines: not with -f text");
	tool_texts_check(&run.in, n == first ? argv[first] : NULL);
}

/* ---------------------------------------------------------------- the model */

static void
open_model(void)
{
	struct qwen_embedding from_file;
	const struct qwen_model *m;
	const char *path;

	tool_texts_open_model(&run.in);
	m = run.in.work.model;
	path = qwen_gguf_path(run.in.work.gguf, 0);
	cli_must(path, qwen_embedding_read(&from_file, run.in.work.gguf,
	    &cli_err));
	cli_must(path, qwen_reranker_open(&run.reranker, run.in.work.gguf,
	    opt.instruct, &cli_err));
	run.n_classes = qwen_model_n_classes(m);
	cli_must(path, qwen_reranker_yes(run.reranker, run.n_classes, &run.yes,
	    run.word, &cli_err));
	if (from_file.pooling != QWEN_POOLING_RANK && run.n_classes == 0)
		run.in.note = "this model is no reranker; asking it for yes "
		    "or no";
	run.how.tok = run.in.work.tok;
	run.how.how = run.reranker;
	run.how.unknown = &run.in.unknown;
	run.how.cut = run.in.cut;
	run.hidden = cli_check_alloc(calloc(qwen_model_n_embd(m),
	    sizeof *run.hidden));
	run.value = cli_check_alloc(calloc(run.n_classes + 2,
	    sizeof *run.value));
}

static void
end_text(struct tool_text_sum *p)
{
	const struct qwen_model *m = run.in.work.model;
	size_t i, n = qwen_model_n_embd(m);

	/* pooling by the last token: the sum has one term */
	for (i = 0; i < n; i++)
		run.hidden[i] = (float)p->sum[i];
	if (run.n_classes > 0)
		cli_must(NULL, qwen_model_classify(m, run.hidden, run.value,
		    &cli_err));
	else
		cli_must(NULL, qwen_model_logits(m, run.hidden, run.word, 2,
		    run.value, &cli_err));
	p->score = qwen_softmax_share(run.value, run.n_classes > 0 ?
	    run.n_classes : 2, run.yes);
}

/* ---------------------------------------------------------------- documents */

static struct tool_text *
take_line(const struct tool_line *line)
{
	static const struct qwen_embedding last = {
	    .pooling = QWEN_POOLING_LAST };
	struct rank *x = cli_check_alloc(calloc(1, sizeof *x));
	size_t i;

	tool_texts_begin(&run.in, &x->item, &x->q.refusal, run.in.lines.line,
	    sizeof *x);
	if (opt.top > 0 && line->s != NULL) {
		x->text = cli_check_alloc(malloc(line->n + 1));
		memcpy(x->text, line->s, line->n);
		x->n_text = line->n;
		x->item.input.bytes += line->n;
	}
	cli_must(NULL, (run.in.requests ? qwen_rank_request_parse :
	    qwen_rank_request_text)(&x->q, &run.how, line->s, line->n,
	    &cli_err));
	run.in.n_cut += x->q.n_cut;
	x->pooled = cli_check_alloc(calloc(x->q.n + 1, sizeof *x->pooled));
	for (i = 0; i < x->q.n && x->q.refusal.err.code == 0; i++)
		tool_text_sum_add_job(&x->pooled[i], &x->item, &last,
		    &x->q.prompt[i]);
	qwen_rank_request_free_prompts(&x->q);
	return &x->item;
}

/* ------------------------------------------------------------------- scores */

static void
add_object(struct qwen_text *t, uint64_t line, double s, const char *text,
    size_t n)
{
	qwen_text_fmt(t, "{\"line\":%llu,\"score\":%.9g", cli_llu(line), s);
	if (text != NULL) {
		qwen_text_str(t, ",\"document\":");
		qwen_text_json(t, text, n);
	}
	qwen_text_str(t, "}\n");
}

static void
add_request(struct qwen_text *t, const struct rank *x)
{
	size_t i;

	if (!tool_begin_result(t, x->item.line, x->q.id, &x->q.refusal))
		return;
	qwen_text_fmt(t, ",\"tokens\":%zu", x->q.n_tokens);
	if (!x->q.is_list) {
		qwen_text_fmt(t, ",\"score\":%.9g}\n", x->pooled[0].score);
		return;
	}
	qwen_text_str(t, ",\"scores\":[");
	for (i = 0; i < x->q.n; i++)
		qwen_text_fmt(t, "%s%.9g", i > 0 ? "," : "",
		    x->pooled[i].score);
	qwen_text_str(t, "]}\n");
}

/*
 * Insert a document into the best ones if its score is high enough; documents
 * of equal score stay in the order of the input.
 */
static void
note_best(struct rank *x)
{
	struct best b = { x->pooled[0].score, x->item.line, x->text,
	    x->n_text };
	size_t i;

	if (run.n_best == opt.top) {
		if (b.score <= run.best[run.n_best - 1].score)
			return;
		free(run.best[--run.n_best].text);
	}
	x->text = NULL;
	cli_grow(&run.best, &run.cap_best, run.n_best + 1, sizeof *run.best);
	for (i = run.n_best++; i > 0 && run.best[i - 1].score < b.score; i--)
		run.best[i] = run.best[i - 1];
	run.best[i] = b;
}

static void
put_score(struct tool_text *item, struct qwen_text *t)
{
	struct rank *x = (struct rank *)(void *)item;

	if (run.in.requests)
		add_request(t, x);
	else if (opt.top > 0)
		note_best(x);
	else if (opt.json)
		add_object(t, item->line, x->pooled[0].score, NULL, 0);
	else
		qwen_text_fmt(t, "%.9g\n", x->pooled[0].score);
	free(x->pooled);
	qwen_rank_request_fini(&x->q);
	free(x->text);
	free(x);
}

static void
put_best(struct qwen_text *t)
{
	size_t i;

	for (i = 0; i < run.n_best; i++) {
		const struct best *b = &run.best[i];

		if (opt.json)
			add_object(t, b->line, b->score, b->text, b->n);
		else {
			qwen_text_fmt(t, "%.9g\t", b->score);
			qwen_text_add(t, b->text, b->n);
			qwen_text_str(t, "\n");
		}
	}
}

int
main(int argc, char *argv[])
{
	parse(argc, argv);
	run.in.line = take_line;
	run.in.end = end_text;
	run.in.put = put_score;
	run.in.finish = put_best;
	return tool_texts_run(&run.in, open_model);
}
