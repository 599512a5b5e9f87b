/* SPDX-License-Identifier: ISC */
/*
 * images.c - the images of a chat.  qimage encodes them, in a process of its
 * own: this program has no decoders and computes nothing.
 */
#define _GNU_SOURCE	/* memmem */

#include <sys/wait.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qtok.h"

static const char pad[] = "<|image_pad|>";

static int
is_image(const struct qtok_message *p)
{
	return strcmp(p->role, "image") == 0;
}

static int
is_stdin(const struct qtok_message *p)
{
	return strcmp(p->arg, "-") == 0;
}

/* ------------------------------------------------------------------ streams */

static void
take_rows(struct qtok_images *im, const struct qwen_record *rec)
{
	struct qtok_rows *r;

	cli_grow(&im->rows, &im->cap_rows, im->n_rows + 1, sizeof *im->rows);
	r = &im->rows[im->n_rows++];
	*r = (struct qtok_rows){ .hash = rec->fp, .n = rec->n };
	r->x = cli_check_alloc(malloc(rec->n * sizeof *r->x + !rec->n));
	if (rec->n > 0)
		memcpy(r->x, rec->logits, rec->n * sizeof *r->x);
}

/*
 * Read a stream of spans and their rows, which is for the model of g unless
 * that is NULL.  Returns the number of spans, which *span has.
 */
static size_t
read_stream(struct qtok_images *im, int fd, const char *name,
    const struct qwen_gguf *g, struct qwen_span **span, size_t *cap)
{
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS, .spans = 1 };
	struct qwen_header self;
	struct qwen_reader *r;
	struct qwen_record rec;
	size_t n = 0;

	if (g != NULL) {
		cli_must(qwen_gguf_path(g, 0), qwen_header_init(&self,
		    QWEN_STREAM_TOKENS, g, &cli_err));
		o.self = &self;
	}
	cli_must(name, qwen_reader_open(&r, fd, &o, &cli_err));
	while (cli_must(name, qwen_reader_next(r, &rec, &cli_err)) > 0) {
		if (rec.kind == QWEN_REC_SPAN) {
			cli_grow(span, cap, n + 1, sizeof **span);
			(*span)[n++] = *qwen_reader_span(r);
		} else if (rec.kind == QWEN_REC_ROWS)
			take_rows(im, &rec);
		else if (rec.kind != QWEN_REC_HEADER)
			die("%s: a stream of tokens, and not of images alone, "
			    "as qimage writes it", name);
	}
	qwen_reader_close(r);
	return n;
}

void
qtok_images_stdin(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g)
{
	size_t i;

	im->pad = -1;
	for (i = 0; i < o->n_messages; i++) {
		if (!is_image(&o->messages[i]))
			continue;
		if (is_stdin(&o->messages[i])) {
			cli_need_stdin();
			im->n_stdin = read_stream(im, STDIN_FILENO, "stdin", g,
			    &im->on_stdin, &im->cap_stdin);
			if (im->n_stdin == 0)
				die("stdin: no images: give --image - the "
				    "stream that qimage writes");
			im->n += im->n_stdin;
		} else
			im->n++;
	}
}

/* ------------------------------------------------------------------- qimage */

/* Run qimage for the files; return the end of its output. */
static int
start(const struct qtok_opts *o, pid_t *pid)
{
	const char **argv = cli_check_alloc(calloc(o->n_messages + 9,
	    sizeof *argv));
	size_t i, n = 0;
	int fd[2];

	argv[n++] = tool_sibling_path("qimage");
	argv[n++] = "-m";
	argv[n++] = tool_model_path(o->model);
	if (o->mmproj != NULL) {
		argv[n++] = "--mmproj";
		argv[n++] = o->mmproj;
	}
	if (o->count)
		argv[n++] = "--no-rows";
	if (cli_quiet)
		argv[n++] = "-q";
	argv[n++] = "--";
	for (i = 0; i < o->n_messages; i++) {
		if (is_image(&o->messages[i]) && !is_stdin(&o->messages[i]))
			argv[n++] = o->messages[i].arg;
	}
	fflush(stdout);
	if (pipe(fd) == -1 || (*pid = fork()) == -1)
		die("qimage: cannot start it: %s", strerror(errno));
	if (*pid == 0) {
		if (dup2(fd[1], STDOUT_FILENO) == -1)
			_exit(126);
		close(fd[0]);
		close(fd[1]);
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(fd[1]);
	free(argv);
	return fd[0];
}

/* Encode the images of files; return the spans, of which there are n. */
static struct qwen_span *
run_qimage(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g, size_t n)
{
	struct qwen_span *span = NULL;
	size_t cap = 0, got;
	int fd, status;
	pid_t pid;

	fd = start(o, &pid);
	got = read_stream(im, fd, "qimage", g, &span, &cap);
	close(fd);
	while (waitpid(pid, &status, 0) == -1) {
		if (errno != EINTR)
			die("qimage: %s", strerror(errno));
	}
	if (WIFEXITED(status) && (WEXITSTATUS(status) == 1 ||
	    WEXITSTATUS(status) == 2))
		exit(1);	/* it has said why */
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		die("qimage, which encodes images, is not beside qtok");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || got != n)
		die("qimage failed, without images");
	return span;
}

/* Return how many places for images the template wrote, and no message has. */
static size_t
places(const struct qwen_prompt *p)
{
	struct qwen_str s = qwen_prompt_text(p);
	const char *at = s.s, *end = s.s + s.len;
	const unsigned char *own;
	size_t n = 0;

	for (; (at = memmem(at, (size_t)(end - at), pad, sizeof pad - 1)) !=
	    NULL; at++) {
		own = qwen_prompt_own(p) + (at - s.s);
		n += memchr(own, 0, sizeof pad - 1) == NULL;
	}
	return n;
}

/* Return the token that stands for an image. */
static int32_t
pad_id(const struct qwen_gguf *g, const struct qwen_tok *t)
{
	int32_t *ids, id;
	size_t n;

	cli_must(NULL, qwen_tok_encode(t, pad, sizeof pad - 1, QWEN_TOK_SPECIAL,
	    &ids, &n, &cli_err));
	if (n != 1)
		die("%s: has no token %s: this model reads no images",
		    qwen_gguf_path(g, 0), pad);
	id = ids[0];
	free(ids);
	return id;
}

void
qtok_images_read(struct qtok_images *im, const struct qtok_opts *o,
    const struct qwen_gguf *g, const struct qwen_prompt *p,
    const struct qwen_tok *t)
{
	size_t i, n = 0, from = 0, n_files = im->n - im->n_stdin;
	struct qwen_span *files = NULL;

	if (im->n == 0)
		return;
	im->pad = pad_id(g, t);
	if (places(p) != im->n)
		die("the chat template has %s for %s",
		    cli_count(places(p), "place"), cli_count(im->n, "image"));
	if (n_files > 0)
		files = run_qimage(im, o, g, n_files);
	im->span = cli_check_alloc(calloc(im->n, sizeof *im->span));
	for (i = 0; i < o->n_messages; i++) {
		if (!is_image(&o->messages[i]))
			continue;
		if (is_stdin(&o->messages[i])) {
			memcpy(im->span + n, im->on_stdin, im->n_stdin *
			    sizeof *im->span);
			n += im->n_stdin;
		} else
			im->span[n++] = files[from++];
	}
	free(files);
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
		if (im->next == im->n)
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

void
qtok_images_put_rows(const struct qtok_images *im, struct qtok_encoding *c)
{
	size_t i;

	for (i = 0; c->w != NULL && i < im->n_rows; i++)
		cli_must("stdout", qwen_write_rows(c->w, &im->rows[i].hash,
		    im->rows[i].x, im->rows[i].n, &cli_err));
}

void
qtok_images_fini(struct qtok_images *im)
{
	size_t i;

	for (i = 0; i < im->n_rows; i++)
		free(im->rows[i].x);
	free(im->rows);
	free(im->on_stdin);
	free(im->span);
}
