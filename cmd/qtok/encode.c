/* SPDX-License-Identifier: ISC */
/* encode.c - convert text to tokens. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qtok.h"

void
qtok_report(uint64_t n_bytes, uint64_t n_tokens, double begin)
{
	if (cli_verbose)
		cli_note("%s, %s, %.3f s", cli_count(n_bytes, "byte"),
		    cli_count(n_tokens, "token"), cli_now() - begin);
}

int
qtok_counts_each(const struct qtok_opts *o, char *paths[])
{
	return o->count && !o->documents && paths[0] != NULL &&
	    paths[1] != NULL;
}

void
qtok_put_count(uint64_t n, const char *name)
{
	if (name != NULL)
		printf("%" PRIu64 " %s\n", n, name);
	else
		printf("%" PRIu64 "\n", n);
}

void
qtok_put_ids(struct qtok_encoding *c, const int32_t *ids, size_t n)
{
	c->n_document += n;
	c->n_tokens += n;
	if (c->w != NULL && n > 0)
		cli_must("stdout", qwen_write_tokens(c->w, ids, n, &cli_err));
}

void
qtok_put_mark(struct qtok_encoding *c)
{
	cli_must("stdout", qwen_write_mark(c->w, c->o->mark, &cli_err));
}

/*
 * Write the next ids of a document, with BOS first unless they begin with it.
 */
static void
put_encoded(struct qtok_encoding *c, const int32_t *ids, size_t n)
{
	if (n > 0 && c->n_document == 0 && c->bos >= 0 && ids[0] != c->bos)
		qtok_put_ids(c, &c->bos, 1);
	qtok_put_ids(c, ids, n);
}

static void
end_document(struct qtok_encoding *c)
{
	const int32_t *ids;
	size_t n;

	cli_must(NULL, qwen_tok_encoder_finish(c->e, &ids, &n, &cli_err));
	put_encoded(c, ids, n);
	/* an empty document gets BOS; no input at all gets none */
	if (c->n_document == 0 && c->bos >= 0 && c->o->documents)
		qtok_put_ids(c, &c->bos, 1);
	if (c->o->mark != NULL)
		qtok_put_mark(c);
	if (c->w == NULL)
		qtok_put_count(c->n_document, c->each ? c->name : NULL);
	else if (c->o->documents && qwen_write_end(c->w, &cli_err) < 0)
		cli_die_err("stdout", &cli_err);
	c->open = 0;
	c->n_document = 0;
}

static void
put_text(struct qtok_encoding *c, const char *p, size_t n)
{
	const int32_t *ids;
	size_t n_ids;

	if (n == 0)
		return;
	cli_must(NULL, qwen_tok_encoder_feed(c->e, p, n, &ids, &n_ids,
	    &cli_err));
	put_encoded(c, ids, n_ids);
	c->open = 1;
}

/* Encode text in which a NUL ends a document. */
static void
put_documents(struct qtok_encoding *c, const char *p, size_t n)
{
	const char *nul;

	while (n > 0 && (nul = memchr(p, '\0', n)) != NULL) {
		put_text(c, p, (size_t)(nul - p));
		end_document(c);
		n -= (size_t)(nul - p) + 1;
		p = nul + 1;
	}
	put_text(c, p, n);
}

/*
 * Pass the known tokens on before waiting for more input.  Writes nothing
 * before the first byte of text.
 */
static void
flush(struct qtok_encoding *c)
{
	if (c->n_bytes == 0)
		return;
	if (c->w == NULL) {
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	} else
		cli_must("stdout", qwen_writer_flush(c->w, &cli_err));
}

static void
encode_input(const struct qtok_input *in, void *arg)
{
	static char buf[1 << 16];
	struct qtok_encoding *c = arg;
	const char *other;
	size_t n, done = 0;

	c->name = in->name;

	/* flush before each read, which may wait */
	for (; flush(c), (n = cli_read(in->fd, in->name, buf,
	    sizeof buf)) > 0; done += n) {
		other = done == 0 && !c->o->force ? tool_not_text(buf, n, 1) : NULL;
		if (other != NULL)
			die("%s: this is %s, not text; --force reads it as "
			    "text%s", in->name, other, c->o->count ?
			    ", and -d counts tokens" : "");
		c->n_bytes += n;
		if (c->o->documents)
			put_documents(c, buf, n);
		else
			put_text(c, buf, n);
	}
	if (c->each)
		end_document(c);
}

struct qwen_writer *
qtok_stream(const struct qtok_opts *o, const struct qwen_gguf *g)
{
	struct qwen_writer_opts wo = {
		.format = o->format, .lines = o->documents, .buffered = 1,
	};
	struct qwen_header h;
	struct qwen_writer *w;

	if (!cli_given(&o->form))
		cli_no_binary_tty();
	cli_must(qwen_gguf_path(g, 0), qwen_header_init(&h, QWEN_STREAM_TOKENS,
	    g, &cli_err));
	cli_must("stdout", qwen_writer_open(&w, STDOUT_FILENO, &wo, &cli_err));
	cli_must("stdout", qwen_write_header(w, &h, &cli_err));
	return w;
}

void
qtok_encode(const struct qtok_opts *o, char *paths[])
{
	struct qwen_gguf *g = tool_gguf_open(tool_model_path(o->model));
	struct qwen_tok *t = tool_tok_open(g, QWEN_TOK_ENCODE);
	struct qtok_encoding c = { .o = o, .bos = qwen_tok_bos(t) };
	double begin = cli_now();

	cli_must(NULL, qwen_tok_encoder_new(&c.e, t, o->encode_flags,
	    &cli_err));
	if (!o->count)
		c.w = qtok_stream(o, g);
	c.each = qtok_counts_each(o, paths);
	qtok_each(paths, encode_input, &c);
	if (c.each)
		qtok_put_count(c.n_tokens, "total");
	else if (c.open || !o->documents)
		end_document(&c);
	cli_must("stdout", qwen_writer_close(c.w, &cli_err));
	qtok_report(c.n_bytes, c.n_tokens, begin);
	qwen_tok_encoder_free(c.e);
	qwen_tok_close(t);
	qwen_gguf_close(g);
}
