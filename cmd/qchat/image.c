/* SPDX-License-Identifier: ISC */
/*
 * image.c - images.  They are documents whose text is an image file.  qimage
 * decodes an image when it is added, and encodes it when its rows must be read:
 * not if the session or the store has read them before.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/what.h"
#include "qchat.h"

enum { MAGIC = 64 };	/* bytes by which an image file is recognised */

/* ------------------------------------------------------------------ encoding */

void
qchat_image_init(struct qchat *c)
{
	c->pad = qwen_template_names(c->template, "image_pad") ?
	    tool_image_pad(c->tok) : -1;
	qchat_opt.images.model = tool_model_path_stream(qchat_opt.model);
	qchat_opt.images.n_threads = qchat_opt.n_threads;
}

/* Return why the model reads no images, or NULL. */
static const char *
why_not(const struct qchat *c)
{
	const struct tool_qimage *q = &qchat_opt.images;

	return c->pad < 0 ? "this model reads no images" :
	    !tool_image_encoder(q->mmproj, q->model) ? "there is no image "
	    "encoder (mmproj file) beside the model: fetch it, or give "
	    "--mmproj" : NULL;
}

int
qchat_reads_images(const struct qchat *c)
{
	return why_not(c) == NULL;
}

/* Run qimage for n images: 0, or -1 and cli_err. */
static int
run(struct qchat *c, const struct qwen_image_source *src, size_t n, int no_rows,
    struct tool_encoded *out)
{
	struct tool_image_input in = { .src = src, .n = n, .quiet = no_rows,
	    .survives = 1 };
	struct tool_qimage q = qchat_opt.images;
	const struct qwen_gguf *g = qwen_model_gguf(c->model);
	struct qwen_header self;

	q.no_rows = no_rows;
	cli_must(NULL, qwen_header_init(&self, QWEN_STREAM_TOKENS, g,
	    &cli_err));
	if (tool_images_encode(&q, &in, &self, out, &cli_err) == 0)
		return 0;
	cli_die_oom(&cli_err);
	return -1;
}

int
qchat_add_image(struct qchat *c, const char *name, char *bytes, size_t n)
{
	struct qwen_image_source src = { .kind = QWEN_SOURCE_BYTES,
	    .s = bytes, .n = n };
	struct tool_encoded e = { 0 };
	const char *why = why_not(c), one[] = "image 1: ";
	struct qchat_document *d;

	if (why == NULL && run(c, &src, 1, 1, &e) < 0) {
		why = cli_err.msg;
		why += strncmp(why, one, sizeof one - 1) == 0 ?
		    sizeof one - 1 : 0;
	}
	if (why != NULL) {
		warn("%s: %s", name, why);
		free(bytes);
	} else {
		qchat_unanswered_to_document(c);
		d = qchat_append_document(c, name, bytes, n);
		d->is_image = 1;
		d->span = e.span[0];
		if (!cli_quiet && isatty(STDIN_FILENO))
			cli_note("%s: %s, put before your next message; /data "
			    "alone drops it", name, cli_count(d->span.n,
			    "token"));
	}
	tool_encoded_fini(&e);
	return why == NULL ? 0 : -1;
}

/* ------------------------------------------------------------ in the prompt */

int
qchat_place_images(struct qchat *c, struct qwen_ids *ids)
{
	struct qwen_span *span = cli_check_alloc(calloc(c->n_documents + 1,
	    sizeof *span));
	size_t i, n = 0, places = 0;
	int rc;

	for (i = 0; i < c->n_documents; i++) {
		if (c->documents[i].is_image)
			span[n++] = c->documents[i].span;
	}
	/* images that wait have no place unless the caller has said them */
	for (i = 0; c->pad >= 0 && i < ids->n; i++)
		places += ids->id[i] == c->pad;
	n = places < n ? places : n;
	rc = c->pad < 0 ? 0 : tool_images_place(ids, c->pad, span, n, &cli_err);
	cli_grow(&c->spans, &c->cap_spans, n + 1, sizeof *c->spans);
	for (i = 0; i < n; i++)
		c->spans[i] = (struct qwen_span_rows){ .span = span[i] };
	c->n_spans = n;
	free(span);
	return rc;
}

/* Find the rows of span i, if they are there. */
static int
find_rows(struct qchat *c, size_t i)
{
	const struct tool_image_rows *r = tool_encoded_find(&c->encoded,
	    &c->spans[i].span.hash);

	c->spans[i].rows = r != NULL ? r->x : NULL;
	return r != NULL;
}

int
qchat_encode_images(struct qchat *c, size_t at)
{
	struct qwen_image_source *src = cli_check_alloc(calloc(c->n_spans + 1,
	    sizeof *src));
	const struct qchat_document *d = c->documents;
	size_t i, n = 0;
	int rc = 0;

	for (i = 0; i < c->n_spans; i++, d++) {
		while (!d->is_image)
			d++;
		if (c->spans[i].span.start + c->spans[i].span.n > at &&
		    !find_rows(c, i))
			src[n++] = (struct qwen_image_source){
			    .kind = QWEN_SOURCE_BYTES, .s = d->text,
			    .n = d->n };
	}
	if (n > 0)
		rc = run(c, src, n, 0, &c->encoded);
	for (i = 0; rc == 0 && i < c->n_spans; i++)
		find_rows(c, i);
	if (rc < 0 && !qchat_interrupted)
		warn("%s", cli_err.msg);
	free(src);
	return rc;
}

/* ---------------------------------------------------- saved conversations */

struct qwen_image_source *
qchat_image_sources(const struct qchat *c)
{
	struct qwen_image_source *src = cli_check_alloc(calloc(c->n_documents +
	    1, sizeof *src));
	const struct qchat_document *d = c->documents;
	size_t n = 0;

	for (; d < c->documents + c->n_documents; d++) {
		if (d->is_image)
			src[n++] = (struct qwen_image_source){
			    .kind = QWEN_SOURCE_BYTES, .s = d->text,
			    .n = d->n };
	}
	return src;
}

int
qchat_load_images(struct qchat *c, struct qwen_messages *m)
{
	struct qwen_image_sources all = { 0 };
	struct tool_encoded e = { 0 };
	struct qchat_document *d;
	char name[32];
	size_t i;
	int rc = qwen_messages_images(m, &all, &cli_err);

	if (rc == 0 && all.n > 0)
		rc = run(c, all.v, all.n, 1, &e);
	if (rc == 0) {
		cli_must(NULL, qwen_messages_set_images(m, NULL, &cli_err));
		qchat_free_documents(c);
	}
	for (i = 0; rc == 0 && i < all.n; i++) {
		snprintf(name, sizeof name, "image %zu", i + 1);
		d = qchat_append_document(c, name, all.v[i].s, all.v[i].n);
		all.v[i].s = NULL;
		d->is_image = 1;
		d->span = e.span[i];
		d->message = all.v[i].message;
	}
	tool_encoded_fini(&e);
	qwen_image_sources_fini(&all);
	return rc;
}

/* -------------------------------------------------------------------- paths */

int
qchat_is_image_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char head[MAGIC];
	struct stat st;
	ssize_t n = 0;

	if (fd == -1)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = read(fd, head, sizeof head);
	close(fd);
	return n > 0 && qwen_what(head, (size_t)n) == QWEN_IS_IMAGE;
}

static int
hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ?
	    c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Turn a file: URL into a path. */
static void
from_url(char *s)
{
	const char *p = s + strlen("file://");

	if (strncmp(s, "file:///", strlen("file:///")) != 0)
		return;
	for (; *p != '\0'; s++, p++) {
		*s = *p;
		if (*p != '%' || hex(p[1]) < 0 || hex(p[2]) < 0)
			continue;
		*s = (char)(hex(p[1]) * 16 + hex(p[2]));
		p += 2;
	}
	*s = '\0';
}

/*
 * Cut the next word off *s as a shell does, without its quotes and backslashes;
 * NULL if a quote is open.
 */
static char *
next_word(char **s)
{
	char *word = *s, *to = word, *p = word, quote = '\0';

	for (; *p != '\0' && (quote != '\0' || *p != ' '); p++) {
		if (quote == '\0' && (*p == '\'' || *p == '"'))
			quote = *p;
		else if (quote != '\0' && *p == quote)
			quote = '\0';
		else if (*p == '\\' && quote != '\'' && p[1] != '\0')
			*to++ = *++p;
		else
			*to++ = *p;
	}
	*s = p + strspn(p, " ");
	*to = '\0';
	return quote == '\0' ? word : NULL;
}

size_t
qchat_image_paths(char *line, char *path[], size_t most)
{
	char *word = line + strspn(line, " "), *copy;
	size_t len, n = 0;

	for (len = strlen(word); len > 0 && word[len - 1] == ' '; )
		word[--len] = '\0';
	/* a name with blanks, as it is */
	if (qchat_is_image_file(word)) {
		path[0] = word;
		return 1;
	}
	for (copy = word; *copy != '\0' && n < most; n++) {
		if ((path[n] = next_word(&copy)) == NULL)
			return 0;
		from_url(path[n]);
		if (!qchat_is_image_file(path[n]))
			return 0;
	}
	return *copy == '\0' ? n : 0;
}
