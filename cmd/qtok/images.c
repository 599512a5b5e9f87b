/* SPDX-License-Identifier: ISC */
/* images.c - the images of a chat. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qtok.h"

static void
model_header(struct qwen_header *h, const struct qwen_gguf *g)
{
	cli_must(qwen_gguf_path(g, 0), qwen_header_init(h, QWEN_STREAM_TOKENS,
	    g, &cli_err));
}

void
qtok_images_stdin(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g)
{
	struct qwen_header self;
	size_t i;

	for (i = 0; i < o->n_messages && (strcmp(o->messages[i].role,
	    "image") != 0 || strcmp(o->messages[i].arg, "-") != 0); i++)
		;
	if (i == o->n_messages)
		return;
	cli_need_stdin();
	if (g != NULL)
		model_header(&self, g);
	cli_must("stdin", tool_encoded_read(&im->on_stdin, STDIN_FILENO,
	    g != NULL ? &self : NULL, &cli_err));
	if (im->on_stdin.n == 0)
		die("stdin: no images: give --image - the stream that qimage "
		    "writes");
}

/* Return the token that stands for an image. */
static int32_t
pad_id(const struct qwen_gguf *g, const struct qwen_tok *t)
{
	int32_t id = tool_image_pad(t);

	if (id < 0)
		die("%s: has no token <|image_pad|>: this model reads no "
		    "images", qwen_gguf_path(g, 0));
	return id;
}

/* Encode the images that are not from stdin. */
static void
encode(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g)
{
	struct tool_qimage q = o->images;
	struct tool_image_input in = { .own = o->n_messages > 0,
	    .quiet = o->n_messages == 0, .dir = o->image_dir };
	struct qwen_image_source *src = cli_check_alloc(calloc(im->src.n,
	    sizeof *src));
	struct qwen_header self;
	size_t i;

	for (i = 0; i < im->src.n; i++) {
		if (im->src.v[i].kind != QWEN_SOURCE_NONE)
			src[in.n++] = im->src.v[i];
	}
	in.src = src;
	q.model = tool_model_path(o->model);
	q.no_rows = o->count;
	model_header(&self, g);
	if (in.n > 0)
		cli_must(NULL, tool_images_encode(&q, &in, &self, &im->others,
		    &cli_err));
	free(src);
}

void
qtok_images_read(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g, const struct qwen_prompt *p,
    const struct qwen_tok *t)
{
	size_t i, n[2] = { 0, 0 }, places;

	im->pad = -1;
	if (im->src.n == 0)
		return;
	im->pad = pad_id(g, t);
	if ((places = qwen_image_places(p)) != im->src.n)
		die("the chat template has %s for %s", cli_count(places,
		    "place"), cli_count(im->src.n, "image"));
	encode(im, o, g);
	im->span = cli_check_alloc(calloc(im->src.n, sizeof *im->span));
	for (i = 0; i < im->src.n; i++)
		im->span[i] = im->src.v[i].kind == QWEN_SOURCE_NONE ?
		    im->on_stdin.span[n[0]++] : im->others.span[n[1]++];
}

/* ------------------------------------------------------------------- output */

void
qtok_images_put_ids(struct qtok_images *im, struct qtok_encoding *c,
    const int32_t *ids, size_t n)
{
	const struct qwen_span *s;
	size_t i, from = 0;

	for (i = 0; im->pad >= 0 && i < n; i++) {
		if (ids[i] != im->pad)
			continue;
		qtok_put_ids(c, ids + from, i - from);
		from = i + 1;
		if (im->next == im->src.n)
			die("the prompt has more places for images than there "
			    "are images");
		s = &im->span[im->next++];
		c->n_document += s->n;
		c->n_tokens += s->n;
		if (c->w != NULL)
			cli_must("stdout", qwen_write_span(c->w, s, &cli_err));
	}
	qtok_put_ids(c, ids + from, n - from);
}

static void
put_rows(const struct tool_encoded *e, struct qtok_encoding *c)
{
	size_t i;

	for (i = 0; c->w != NULL && i < e->n_rows; i++)
		cli_must("stdout", qwen_write_rows(c->w, &e->rows[i].hash,
		    e->rows[i].x, e->rows[i].n, &cli_err));
}

void
qtok_images_put_rows(const struct qtok_images *im, struct qtok_encoding *c)
{
	put_rows(&im->on_stdin, c);
	put_rows(&im->others, c);
}

void
qtok_images_fini(struct qtok_images *im)
{
	qwen_image_sources_fini(&im->src);
	tool_encoded_fini(&im->on_stdin);
	tool_encoded_fini(&im->others);
	free(im->span);
}
