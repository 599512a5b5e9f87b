/* SPDX-License-Identifier: ISC */
/* decode.c - convert tokens to text, or count them. */
#include <stdlib.h>
#include <unistd.h>

#include "qtok.h"

struct decoding {
	const struct qtok_opts	*o;
	struct qwen_tok_decoder	*d;
	struct qwen_header	 self;
	int			 open;	/* a document has begun */
	int			 cut;	/* the document met a text of --stop */
	int			 last;	/* last byte written */
	int			 each;	/* print a count per operand */
	const char		*name;
	uint64_t		 n_document;	/* tokens of this document */
	uint64_t		 n_bytes, n_tokens;
};

static void
put_text(struct decoding *c, struct qwen_str s)
{
	if (s.len > 0) {
		fwrite(s.s, 1, s.len, stdout);
		c->last = s.s[s.len - 1];
	}
}

static void
put_str(struct decoding *c, struct qwen_str s)
{
	if (c->cut || c->o->count)
		return;
	c->cut = tool_stop_feed(c->o->cut, &s, 1);
	put_text(c, s);
	c->n_bytes += s.len;
}

static void
finish_text(struct decoding *c)
{
	struct qwen_str s;

	qwen_tok_decoder_finish(c->d, &s);
	put_str(c, s);
	s = tool_stop_end(c->o->cut);
	if (!c->cut)
		put_text(c, s);
	if (c->o->count)
		qtok_put_count(c->n_document, c->each ? c->name : NULL);
	else if (c->o->documents)
		putchar('\0');
	c->open = c->cut = 0;
	c->n_document = 0;
}

static void
put_tokens(struct decoding *c, const struct qtok_input *in,
    const struct qwen_record *rec)
{
	struct qwen_str s;
	size_t i;

	for (i = 0; i < rec->n; i++) {
		if (qwen_tok_decoder_put(c->d, rec->ids[i], &s, &cli_err) < 0) {
			fflush(stdout);
			cli_die_err(in->name, &cli_err);
		}
		put_str(c, s);
	}
	c->n_document += rec->n;
	c->n_tokens += rec->n;
	c->open = 1;
}

static void
decode_input(const struct qtok_input *in, void *arg)
{
	struct decoding *c = arg;
	struct qwen_reader_opts ro = {
		.kinds = QWEN_STREAM_TOKENS, .self = &c->self,
		.lines = c->o->documents,
	};
	struct qwen_reader *r;
	struct qwen_record rec;

	c->name = in->name;
	cli_must(in->name, qwen_reader_open(&r, in->fd, &ro, &cli_err));
	while (cli_must(in->name, qwen_reader_next(r, &rec, &cli_err)) > 0) {
		tool_demo_note(rec.kind == QWEN_REC_HEADER);
		if (rec.kind == QWEN_REC_TOKENS)
			put_tokens(c, in, &rec);
		else if (rec.kind == QWEN_REC_END)
			finish_text(c);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
		/* no more text can follow the stop */
		if (c->cut && !c->o->documents)
			break;
	}
	qwen_reader_close(r);
	if (c->each)
		finish_text(c);
}

void
qtok_decode(const struct qtok_opts *o, char *paths[])
{
	struct qwen_gguf *g = tool_gguf_open(tool_model_path_stream(o->model));
	struct qwen_tok *t = tool_tok_open(g, QWEN_TOK_DECODE);
	struct decoding c = { .o = o, .last = '\n' };
	double begin = cli_now();

	cli_must(qwen_gguf_path(g, 0), qwen_header_init(&c.self,
	    QWEN_STREAM_TOKENS, g, &cli_err));
	cli_must(NULL, qwen_tok_decoder_new(&c.d, t, o->decode_flags,
	    &cli_err));
	c.each = qtok_counts_each(o, paths);
	qtok_each(paths, decode_input, &c);
	if (c.each)
		qtok_put_count(c.n_tokens, "total");
	else if (c.open || !o->documents)
		finish_text(&c);
	/* keep the shell's prompt on a line of its own */
	if (!o->documents && !o->count && c.last != '\n' &&
	    isatty(STDOUT_FILENO))
		putchar('\n');
	qtok_report(c.n_bytes, c.n_tokens, begin);
	qwen_tok_decoder_free(c.d);
	qwen_tok_close(t);
	qwen_gguf_close(g);
}
