/* SPDX-License-Identifier: ISC */
/*
 * chat.c - convert a chat, from a request or from options, to tokens or to
 * text.
 */
#define _GNU_SOURCE	/* memmem */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "qtok.h"

/* Byte positions in a prompt, ascending. */
struct positions {
	size_t		*at;
	size_t		 n, cap;
};

struct qwen_template *
qtok_template(const struct qtok_opts *o)
{
	struct qwen_template *t;
	struct qwen_gguf *g;

	if (o->template != NULL)
		t = tool_template(o->template);
	else {
		g = tool_gguf_open(tool_model_path(o->model));
		cli_must(qwen_gguf_path(g, 0), qwen_template_open_gguf(&t, g,
		    &cli_err));
		qwen_gguf_close(g);
	}
	/*
	 * such a template also ignores the tools of a request; only --tools is
	 * checked
	 */
	if (o->tools != NULL && !qwen_template_calls(t))
		cli_note("the template does not say how to call tools");
	return t;
}

const char *
qtok_think(const struct qtok_opts *o)
{
	return o->think < 0 ? "null" : o->think == 0 ? "true" : "false";
}

/* Add an image, or those of stdin. */
static void
put_images(struct qwen_messages *q, const char *arg, struct qtok_images *im)
{
	int is_stdin = strcmp(arg, "-") == 0;
	size_t i, n = is_stdin ? im->on_stdin.n : 1;
	struct qwen_image_sources *all = &im->src;

	for (i = 0; i < n; i++) {
		cli_must(NULL, qwen_messages_add_image(q, &cli_err));
		cli_grow(&all->v, &all->cap, all->n + 1, sizeof *all->v);
		all->v[all->n++] = (struct qwen_image_source){ .kind =
		    is_stdin ? QWEN_SOURCE_NONE : QWEN_SOURCE_PATH,
		    .s = cli_format("%s", arg), .n = strlen(arg) };
	}
}

/* Add a message.  Keeps the text of a document, to find it in the prompt. */
static void
put_message(struct qwen_messages *q, struct qtok_message *p,
    struct qtok_images *im)
{
	if (strcmp(p->role, "image") == 0) {
		put_images(q, p->arg, im);
		return;
	}
	if (strcmp(p->role, "data") != 0) {
		cli_must("an argument", qwen_messages_add_text(q, p->role,
		    p->arg, strlen(p->arg), 1, &cli_err));
		return;
	}
	p->text = cli_read_file(p->arg, CLI_FILE_MAX, &p->n);
	cli_must(p->arg, qwen_messages_add_text(q, "user", p->text, p->n, 1,
	    &cli_err));
}

/*
 * Return the source of a request, for messages; NULL if it is made from
 * options.
 */
static const char *
source(const struct qtok_opts *o, char *paths[])
{
	if (o->n_messages > 0)
		return NULL;
	return paths[0] == NULL || strcmp(paths[0], "-") == 0 ? "stdin" :
	    paths[0];
}

/* Read a request, and its images if the model reads them, from a file or stdin. */
static struct qwen_messages *
read_request(const struct qtok_opts *o, struct qtok_images *im,
    const char *path, const char *name)
{
	struct qwen_messages *q;
	size_t n;
	char *json = cli_read_file(path, CLI_FILE_MAX, &n);

	cli_must(name, qwen_messages_read_with(&q, o->placeholder, im->may,
	    json, n, &cli_err));
	if (im->may)
		cli_must(name, qwen_messages_images(q, &im->src, &cli_err));
	if (qwen_messages_note(q) != NULL)
		cli_note("%s", qwen_messages_note(q));
	free(json);
	return q;
}

static void
set_member(struct qwen_messages *q, const char *key, const char *json, size_t n,
    const char *what)
{
	cli_must(what, qwen_messages_set(q, key, json, n, &cli_err));
}

/*
 * Return the request of options or a file as JSON, to be freed; *n: its length.
 */
static char *
request(const struct qtok_opts *o, struct qtok_images *im, char *paths[],
    size_t *n)
{
	struct qwen_messages *q;
	char *tools, *json;
	size_t i;

	if (o->n_messages > 0 && paths[0] != NULL)
		cli_usage("the chat is given by options: %s would not be "
		    "read", paths[0]);
	if (paths[0] != NULL && paths[1] != NULL)
		cli_usage("--chat reads only one file");
	if (o->n_messages == 0)
		q = read_request(o, im, paths[0] != NULL ? paths[0] : "-",
		    source(o, paths));
	else
		cli_must(NULL, qwen_messages_new(&q, &cli_err));
	for (i = 0; i < o->n_messages; i++)
		put_message(q, &o->messages[i], im);
	if (o->tools != NULL) {
		tools = cli_read_file(o->tools, CLI_FILE_MAX, n);
		set_member(q, "tools", tools, *n, o->tools);
		free(tools);
	}
	if (o->think >= 0)
		set_member(q, "enable_thinking", qtok_think(o),
		    strlen(qtok_think(o)), "--think");
	if (tool_effort.level != NULL) {
		json = cli_format("\"%s\"", tool_effort.level);
		set_member(q, "reasoning_effort", json, strlen(json),
		    "--effort");
		free(json);
	}
	cli_must(NULL, qwen_messages_json(q, 0, &json, n, &cli_err));
	qwen_messages_free(q);
	return json;
}

static int
is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/*
 * Return the end of a document in the prompt, searched from byte from on, with
 * the line feeds after it; or from, if the document is not found or if no text
 * of a message follows it.  Text after the last of several line feeds always
 * begins a token, so a cut there changes no id.
 */
static size_t
document_end(const struct qwen_prompt *p, size_t from,
    const struct qtok_message *doc)
{
	struct qwen_str s = qwen_prompt_text(p);
	const char *text = doc->text, *hit = NULL;
	size_t n = doc->n, i, at;

	/* templates trim messages */
	for (; n > 0 && is_blank(*text); n--)
		text++;
	while (n > 0 && is_blank(text[n - 1]))
		n--;
	/* a hit in text that the template wrote is not the document */
	for (i = from; n > 0 && (hit = memmem(s.s + i, s.len - i, text, n)) !=
	    NULL && qwen_prompt_own(p)[hit - s.s]; )
		i = (size_t)(hit - s.s) + 1;
	if (n == 0 || hit == NULL)
		return from;
	i = (size_t)(hit - s.s) + n;
	for (at = from; i < s.len && is_blank(s.s[i]); i++) {
		if (s.s[i] == '\n')
			at = i + 1;
	}
	return at < s.len && !qwen_prompt_own(p)[at] ? at : from;
}

/* Add a position, unless it is an end of the text or not above the last one. */
static void
add_position(struct positions *l, size_t at, size_t end)
{
	if (at == 0 || at >= end || (l->n > 0 && at <= l->at[l->n - 1]))
		return;
	cli_grow(&l->at, &l->cap, l->n + 1, sizeof *l->at);
	l->at[l->n++] = at;
}

/*
 * Find the positions to mark: after the system turn, which other chats share;
 * after each document, which other questions share; and before the last turn,
 * where the next request of this chat may first differ.
 */
static void
find_positions(struct positions *l, const struct qtok_opts *o,
    const struct qwen_prompt *p)
{
	struct qwen_str s = qwen_prompt_text(p);
	size_t first = qwen_prompt_turn(p, 0), last = first, next, at = 0, i;
	static const char system[] = "<|im_start|>system";

	if (s.len - first >= sizeof system &&
	    memcmp(s.s + first, system, sizeof system - 1) == 0)
		add_position(l, at = qwen_prompt_turn(p, first + 1), s.len);
	while (last < s.len && (next = qwen_prompt_turn(p, last + 1)) < s.len)
		last = next;
	for (i = 0; i < o->n_messages; i++) {
		if (o->messages[i].text == NULL)
			continue;
		at = document_end(p, at, &o->messages[i]);
		add_position(l, at, s.len);
	}
	add_position(l, last, s.len);
}

/* Write the tokens, with marks if --mark is given. */
static void
put_prompt(struct qtok_encoding *c, struct qtok_images *im,
    const struct qwen_prompt *p, const struct qwen_tok *t)
{
	struct positions l = { 0 };
	size_t from = 0, to, i, n_ids;
	int32_t *ids;

	if (c->o->mark != NULL)
		find_positions(&l, c->o, p);
	for (i = 0; i <= l.n; i++, from = to) {
		to = i < l.n ? l.at[i] : qwen_prompt_text(p).len;
		cli_must(NULL, qwen_prompt_encode(p, t, from, to, &ids,
		    &n_ids, &cli_err));
		qtok_images_put_ids(im, c, ids, n_ids);
		free(ids);
		if (i < l.n)
			qtok_put_mark(c);
	}
	qtok_images_put_rows(im, c);
	free(l.at);
}

static void
encode_prompt(const struct qtok_opts *o, const struct qwen_gguf *g,
    const struct qwen_prompt *p, struct qtok_images *im)
{
	struct qwen_tok *t = tool_tok_open(g, QWEN_TOK_ENCODE);
	struct qtok_encoding c = { .o = o, .n_bytes = qwen_prompt_text(p).len };
	double begin = cli_now();

	qtok_images_read(im, o, g, p, t);
	if (!o->count)
		c.w = qtok_stream(o, g);
	put_prompt(&c, im, p, t);
	if (o->count)
		printf("%" PRIu64 "\n", c.n_document);
	cli_must("stdout", qwen_writer_close(c.w, &cli_err));
	qtok_report(c.n_bytes, c.n_tokens, begin);
	qwen_tok_close(t);
}

void
qtok_chat(const struct qtok_opts *o, char *paths[])
{
	struct qwen_template *t = qtok_template(o);
	struct qtok_images im = { 0 };
	struct qwen_gguf *g = NULL;
	struct qwen_prompt *p;
	struct qwen_str s;
	char *json;
	size_t n;

	/* no model for the text of a prompt by a given template without -m */
	if (o->form != QTOK_PROMPT || o->template == NULL ||
	    o->model != NULL || tool_bos() != QWEN_BOS_FILE)
		g = tool_gguf_open(tool_model_path(o->model));
	tool_template_set(t, g);
	qwen_template_set_systems(t, o->systems);
	qtok_images_stdin(&im, o, g);
	im.may = qwen_template_names(t, "image_pad") && (o->n_messages > 0 ||
	    (g != NULL && tool_image_encoder(o->images.mmproj,
	    tool_model_path(o->model))));
	json = request(o, &im, paths, &n);
	if (im.src.n > 0 && !im.may)
		die("the chat template has no place for images "
		    "(<|image_pad|>): use a model that reads images");
	cli_must(source(o, paths), qwen_template_render(t, json, n, &p,
	    &cli_err));
	if (qwen_prompt_repaired(p))
		cli_note("%s", qwen_note_arguments());
	free(json);
	qwen_template_close(t);
	s = qwen_prompt_text(p);
	if (o->form == QTOK_PROMPT)
		fwrite(s.s, 1, s.len, stdout);
	else
		encode_prompt(o, g, p, &im);
	qtok_images_fini(&im);
	qwen_prompt_free(p);
	qwen_gguf_close(g);
}
