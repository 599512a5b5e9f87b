/* SPDX-License-Identifier: ISC */
/* qsample.c - read rows of logits, write the token chosen for each row. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/tool.h"

static struct {
	enum qwen_format	 format;
	const char		*model;		/* file with data that rows
						   lack; or NULL */
	const char		*state;		/* NULL: none */
	int64_t			 n;		/* most tokens, or rows with
						   --top */
	int			 ignore_eos;
	int			 mask_unused;
	size_t			 top;		/* tokens to show per row; 0:
						   choose one */
} opt = { .n = INT64_MAX };

struct sampling {
	struct qwen_sampler	*sampler;
	struct qwen_pieces	*pieces;	/* for the sampler; or NULL */
	struct tool_grammar	 grammar;
	struct qwen_writer	*w;
	struct qwen_header	 header;	/* of the current timeline */
	struct qwen_sample_top	*best;		/* room for opt.top */
	struct qwen_gguf	*gguf;		/* for the texts of --top; or
						   NULL */
	struct qwen_tok		*tok;		/* of gguf */
	struct qwen_tok_decoder	*spell;
	int64_t			 n;		/* rows so far */
	int			 state_read;
	int			 advised;	/* recommended settings are
						   applied */
};

static struct sampling run;

static const struct cli_opt options[] = {
	CLI_GROUP("rows and tokens:"),
	CLI_FILE('s', "state", "state", &opt.state, "file",
	    "the state that the rows come from, for penalties on the prompt"),
	CLI_INT('n', "count", "count", &opt.n, 0, INT64_MAX,
	    "choose at most COUNT tokens"),
	CLI_OPT_FORMAT(&opt.format, "cbor text json",
	    "format of the output"),
	TOOL_OPT_IGNORE_EOS(&opt.ignore_eos),
	TOOL_OPT_GRAMMAR(&run.grammar),
	TOOL_OPT_MASK_UNUSED(&opt.mask_unused),
	TOOL_OPT_MODEL_ROW(&opt.model,
	    "model, for options that use or print texts"),
	CLI_INT(0, "top", "n", &opt.top, 1, QWEN_VOCAB_MAX,
	    "choose nothing: print the N best tokens of each row"),
	TOOL_OPT_SAMPLING(&run.sampler),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qsample", .about = "choose a token for each row of logits",
	.usage = "[options]\n--top n [options]", .options = options,
};

static void
check_options(const struct sampling *r)
{
	int dry = qwen_sampler_number(r->sampler, "dry-prompt") != 0;

	if (opt.model != NULL && !opt.mask_unused && opt.top == 0 &&
	    !tool_sampling_asked() && !qwen_sampler_needs_pieces(r->sampler))
		cli_usage("-m is used only by --mask-unused, --sampling, --top "
		    "and options that look at texts");
	tool_sampling_check(r->sampler);
	tool_report_seed(r->sampler);
	if (opt.top == 0) {
		if (opt.state == NULL && (dry || qwen_sampler_number(
		    r->sampler, "penalty-prompt") != 0))
			cli_usage("--%s-prompt needs -s: rows of logits do not "
			    "contain the prompt", dry ? "dry" : "penalty");
		return;
	}
	if (cli_given(&r->sampler) || r->grammar.path != NULL ||
	    opt.state != NULL || opt.ignore_eos ||
	    opt.mask_unused)
		cli_usage("--top only prints rows: no option that chooses "
		    "tokens goes with it");
	if (!cli_given(&opt.format))
		opt.format = QWEN_FORMAT_TEXT;
	if (opt.format == QWEN_FORMAT_CBOR)
		cli_usage("--top prints text or json: use another -f");
}

/* --------------------------------------------------------- choosing tokens */

/*
 * Open the model file; exit with an error if its vocabulary differs from that
 * of the rows.
 */
static struct qwen_gguf *
open_model(const struct sampling *r)
{
	const char *path = tool_model_path_stream(opt.model);
	char a[33], b[33];
	struct qwen_gguf *g = tool_gguf_open(path);
	struct qwen_fp fp;

	cli_must(path, qwen_vocab_fingerprint(g, &fp, &cli_err));
	if (memcmp(&fp, &r->header.vocab, sizeof fp) != 0)
		die("%s has vocabulary %s, the logits have %s", path,
		    qwen_fp_hex(&fp, a), qwen_fp_hex(&r->header.vocab, b));
	return g;
}

/*
 * Set what the sampler needs from the model file: recommended settings, unused
 * tokens, token texts and the grammar.
 */
static void
set_from_model(struct sampling *r)
{
	struct qwen_gguf *g = open_model(r);

	/* the first timeline fixes the sampling options */
	if (r->advised++ == 0)
		tool_sampling_advise(r->sampler, g, 0, 0);
	if (opt.mask_unused)
		tool_mask_unused(r->sampler, g);
	qwen_pieces_close(r->pieces);
	r->pieces = tool_sampling_pieces(r->sampler, g);
	tool_grammar_begin(&r->grammar, r->pieces, r->sampler);
	qwen_gguf_close(g);
}

/* Open a decoder of single tokens that shows control tokens by name. */
static void
open_decoder(struct sampling *r)
{
	struct qwen_gguf *g = open_model(r);

	if (r->gguf != NULL) {
		qwen_gguf_close(g);
		return;
	}
	r->gguf = g;
	r->tok = tool_tok_open(g, QWEN_TOK_DECODE);
	cli_must(opt.model, qwen_tok_decoder_new(&r->spell, r->tok,
	    QWEN_TOK_BYTES | QWEN_TOK_SHOW_SPECIAL, &cli_err));
}

/* Start a new timeline after its header. */
static void
begin_timeline(struct sampling *r, const struct qwen_header *h)
{
	struct qwen_header out = *h;

	r->header = *h;
	r->state_read = 0;
	if (opt.top > 0) {
		if (opt.model != NULL)
			open_decoder(r);
		return;
	}
	if (opt.mask_unused || tool_sampling_asked() ||
	    qwen_sampler_needs_pieces(r->sampler))
		set_from_model(r);
	out.kind = QWEN_STREAM_TOKENS;
	cli_must(NULL, qwen_sampler_eog(r->sampler, h->eog, h->n_eog,
	    &cli_err));
	cli_must(NULL, qwen_sampler_begin(r->sampler, h->n_vocab, &cli_err));
	cli_must("stdout", qwen_write_header(r->w, &out, &cli_err));
}

static void
check_state(const struct sampling *r, const struct qwen_header *h, size_t n,
    const struct qwen_record *row)
{
	char a[33], b[33];

	if (memcmp(&h->model, &r->header.model, sizeof h->model) != 0)
		die("%s: the state is of model %s, the logits are of %s",
		    opt.state, qwen_fp_hex(&h->model, a),
		    qwen_fp_hex(&r->header.model, b));
	if (h->n_vocab != r->header.n_vocab)
		die("%s: the state has a vocabulary of %lu tokens, the logits "
		    "of %lu", opt.state, (unsigned long)h->n_vocab,
		    (unsigned long)r->header.n_vocab);
	if (row->pos + 1 != n)
		die("%s: the state has %s, but the first row of logits follows "
		    "token %llu", opt.state, cli_count(n, "token"),
		    cli_llu(row->pos) + 1);
}

/*
 * Replay the tokens before the first row to the sampler, for the penalties.
 * Called when the first row has arrived, since upstream may write the state
 * just before it.
 */
static void
read_state(struct sampling *r, const struct qwen_record *row)
{
	struct qwen_state_extra x;
	struct qwen_header h;
	int32_t *tokens;
	size_t n;

	cli_must(opt.state, qwen_state_load_tokens(&tokens, &n, &x, &h,
	    opt.state, NULL, &cli_err));
	check_state(r, &h, n, row);
	cli_must(opt.state, qwen_state_extra_replay(&x, r->sampler, tokens, n,
	    &cli_err));
	qwen_state_extra_fini(&x);
	free(tokens);
	r->state_read = 1;
}

/* Choose a token by a row; return 1 if it is the last one. */
static int
choose(struct sampling *r, const struct qwen_record *row)
{
	int32_t id;

	if (opt.state != NULL && !r->state_read)
		read_state(r, row);
	cli_must("stdin", qwen_sampler_sample(r->sampler, row->logits, row->ids,
	    row->n, row->pos + 1, &id, &cli_err));
	cli_must("stdin", qwen_sampler_accept(r->sampler, &id, 1, 1, &cli_err));
	cli_must("stdout", qwen_write_tokens(r->w, &id, 1, &cli_err));
	return qwen_sampler_stopped(r->sampler) ||
	    (!opt.ignore_eos && tool_is_ending(&r->header, id));
}

/* -------------------------------------------------- showing the best tokens */

/* Add the text of a token as a JSON string, in the form of qscore --top. */
static void
add_spelling(const struct sampling *r, struct qwen_text *t, int32_t id)
{
	struct qwen_str s;

	cli_must(opt.model, qwen_tok_decoder_put(r->spell, id, &s, &cli_err));
	qwen_text_json(t, s.s, s.len);
}

static void
add_lines(const struct sampling *r, struct qwen_text *t, int n, uint64_t pos)
{
	const struct qwen_sample_top *b;

	for (b = r->best; b < r->best + n; b++) {
		qwen_text_fmt(t, "%llu\t%ld\t%.9g\t%.6f", cli_llu(pos),
		    (long)b->id, (double)b->logit, b->logprob);
		if (r->spell != NULL) {
			qwen_text_str(t, "\t");
			add_spelling(r, t, b->id);
		}
		qwen_text_str(t, "\n");
	}
}

static void
add_json(const struct sampling *r, struct qwen_text *t, int n, uint64_t pos)
{
	const struct qwen_sample_top *b;

	qwen_text_fmt(t, "{\"position\":%llu,\"top\":[", cli_llu(pos));
	for (b = r->best; b < r->best + n; b++) {
		qwen_text_fmt(t, "%s{\"id\":%ld,\"logit\":%.9g,"
		    "\"logprob\":%.6f", b > r->best ? "," : "", (long)b->id,
		    (double)b->logit, b->logprob);
		if (r->spell != NULL) {
			qwen_text_str(t, ",\"text\":");
			add_spelling(r, t, b->id);
		}
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "]}\n");
}

/* Print the best tokens for the position after that of the row. */
static void
show(struct sampling *r, const struct qwen_record *row)
{
	struct qwen_text t = { 0 };
	int i, n;

	if (r->best == NULL) {
		if (opt.top > r->header.n_vocab)
			opt.top = r->header.n_vocab;
		r->best = cli_check_alloc(calloc(opt.top, sizeof *r->best));
	}
	n = cli_must("stdin", qwen_sample_top(row->logits, row->ids, row->n,
	    r->header.n_vocab, r->best, opt.top, &cli_err));
	/* a row with only the best logits has the sum over all of them */
	for (i = 0; row->ids != NULL && i < n; i++)
		r->best[i].logprob = (double)r->best[i].logit -
		    (double)row->logsumexp;
	if (opt.format == QWEN_FORMAT_JSON)
		add_json(r, &t, n, row->pos + 1);
	else
		add_lines(r, &t, n, row->pos + 1);
	cli_write_all(STDOUT_FILENO, "stdout", &t);
	qwen_text_fini(&t);
}

/* -------------------------------------------------------------------------- */

static void
read_rows(struct sampling *r)
{
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_LOGITS };
	struct qwen_reader *reader;
	struct qwen_record rec;
	int last = 0;

	cli_must("stdin", qwen_reader_open(&reader, STDIN_FILENO, &o,
	    &cli_err));
	while (!last && cli_must("stdin", qwen_reader_next(reader, &rec,
	    &cli_err)) > 0) {
		if (rec.kind == QWEN_REC_HEADER)
			begin_timeline(r, rec.header);
		if (rec.kind == QWEN_REC_LOGITS && opt.top > 0)
			show(r, &rec);
		else if (rec.kind == QWEN_REC_LOGITS)
			last = choose(r, &rec);
		r->n += rec.kind == QWEN_REC_LOGITS;
		last = last || r->n >= opt.n;
	}
	qwen_reader_close(reader);
	if (r->n == 0 && opt.n > 0)
		die("stdin ended without a row of logits: upstream failed");
}

int
main(int argc, char *argv[])
{
	struct sampling *r = &run;
	char set[2048];

	cli_begin(&tool, argc, argv);
	tool_grammar_open(&r->grammar, r->sampler);
	check_options(r);
	cli_need_stdin();
	if (!cli_given(&opt.format) && opt.top == 0)
		cli_no_binary_tty();
	if (opt.top == 0)
		r->w = tool_writer(STDOUT_FILENO, opt.format);
	read_rows(r);
	if (cli_verbose && opt.top == 0) {
		qwen_sampler_describe(r->sampler, set, sizeof set);
		cli_note("%s chosen, %s", cli_count((uint64_t)r->n, "token"),
		    set[0] != '\0' ? set : "greedy");
	}
	cli_must("stdout", qwen_writer_close(r->w, &cli_err));
	return cli_finish();
}
