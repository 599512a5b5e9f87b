/* SPDX-License-Identifier: ISC */
/*
 * image.c - the images of requests.  qimage encodes those of a request before it
 * joins the others: it takes all threads, so nothing is gained by computing
 * meanwhile.
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/err.h"
#include "models/models.h"
#include "qbatch.h"
#include "vision/vision.h"

enum { SPARE = 1 << 28 };	/* bytes of rows that no request needs */

struct qbatch_image {
	struct qbatch_image	*next;
	XXH128_hash_t		 key;		/* of the bytes, or the path */
	struct qwen_span	 span;		/* start is not set */
	float			*rows;		/* NULL for --plan */
	size_t			 bytes;		/* of rows */
	size_t			 n_users;	/* requests */
};

/* ------------------------------------------------------------------ opening */

/* Return the options that influence rows. */
static char *
options(const struct tool_qimage *q)
{
	char *found = NULL, hex[33], *s;
	struct qwen_fp fp;

	if (q->mmproj == NULL)
		cli_must(q->model, qwen_models_projector(&found, q->model,
		    &cli_err));
	cli_must(q->mmproj, qwen_vision_fingerprint(&fp, q->mmproj != NULL ?
	    q->mmproj : found, &cli_err));
	free(found);
	s = cli_format(QBATCH_MMPROJ "%s-%d", qwen_fp_hex(&fp, hex),
	    QWEN_VISION_VERSION);
	if (q->max_tokens == 0)
		return s;
	found = cli_format("%s image-max-tokens=%u", s, q->max_tokens);
	free(s);
	return found;
}

char *
qbatch_images_open(struct qbatch_images *all, struct tool_service *w)
{
	const struct qwen_template *t = w->service.template;

	if (!tool_image_encoder(all->how.mmproj, all->how.model)) {
		if (all->dir != NULL || all->how.max_tokens > 0)
			die("%s: no image encoder (mmproj file) beside it: "
			    "options for images have no effect",
			    all->how.model);
		return NULL;
	}
	all->pad = tool_image_pad(w->service.tok);
	if (all->pad < 0 || t == NULL || !qwen_template_names(t, "image_pad")) {
		if (all->how.mmproj != NULL)
			die("--mmproj: the chat template has no place for "
			    "images (<|image_pad|>)");
		return NULL;
	}
	cli_must(all->how.model, qwen_header_init(&all->self,
	    QWEN_STREAM_TOKENS, w->gguf, &cli_err));
	w->service.reads_images = 1;
	return options(&all->how);
}

/* ------------------------------------------------------- images that are known */

static XXH128_hash_t
key_of(const struct qwen_image_source *src)
{
	return XXH3_128bits_withSeed(src->s, src->n, src->kind);
}

/* Return the image with this key, and make it the first one; NULL: none. */
static struct qbatch_image *
find(struct qbatch_images *all, XXH128_hash_t key)
{
	struct qbatch_image **at, *im;

	for (at = &all->first; (im = *at) != NULL; at = &im->next) {
		if (!XXH128_isEqual(im->key, key))
			continue;
		*at = im->next;
		im->next = all->first;
		all->first = im;
		return im;
	}
	return NULL;
}

/* Free images that no request needs, except the last ones that were used. */
static void
trim(struct qbatch_images *all)
{
	struct qbatch_image **at = &all->first, *im;
	size_t spare = 0;

	while ((im = *at) != NULL) {
		spare += im->n_users == 0 ? im->bytes + sizeof *im : 0;
		if (im->n_users > 0 || spare <= SPARE) {
			at = &im->next;
			continue;
		}
		*at = im->next;
		free(im->rows);
		free(im);
	}
}

static void
add(struct qbatch_images *all, XXH128_hash_t key, const struct qwen_span *span,
    const struct tool_image_rows *rows)
{
	struct qbatch_image *im = cli_check_alloc(calloc(1, sizeof *im));

	*im = (struct qbatch_image){ .next = all->first, .key = key,
	    .span = *span };
	if (rows != NULL) {
		im->bytes = rows->n * sizeof *rows->x;
		im->rows = cli_check_alloc(malloc(im->bytes + 1));
		memcpy(im->rows, rows->x, im->bytes);
	}
	all->first = im;
}

/* ----------------------------------------------------------------- encoding */

/* Encode n images, which image numbers of a request; -1 and *err. */
static int
encode(struct qbatch_images *all, const struct qwen_image_source *src,
    const size_t *number, size_t n, struct qwen_err *err)
{
	struct tool_image_input in = { .src = src, .n = n, .dir = all->dir,
	    .quiet = 1 };
	struct tool_encoded e = { 0 };
	int rc = tool_images_encode(&all->how, &in, &all->self, &e, err), at;
	size_t i;
	char msg[sizeof err->msg];

	for (i = 0; rc == 0 && i < n; i++)
		add(all, key_of(&src[i]), &e.span[i], tool_encoded_find(&e,
		    &e.span[i].hash));
	tool_encoded_fini(&e);
	/* the message counts only these images */
	if (rc < 0 && sscanf(err->msg, "image %zu: %n", &i, &at) == 1 &&
	    i - 1 < n) {
		snprintf(msg, sizeof msg, "%s", err->msg + at);
		qwen_fail(err, err->code, "image %zu: %s", number[i - 1], msg);
	}
	return rc;
}

/* Encode the images of a request that are not known. */
static int
encode_new(struct qbatch_images *all, const struct qwen_image_sources *of,
    struct qbatch_pictures *out, struct qwen_err *err)
{
	struct qwen_image_source *src = cli_check_alloc(calloc(of->n,
	    sizeof *src));
	size_t *number = cli_check_alloc(calloc(of->n, sizeof *number));
	size_t i, k, n = 0;
	int rc = 0;

	for (i = 0; i < of->n; i++) {
		if (find(all, key_of(&of->v[i])) != NULL)
			continue;
		for (k = 0; k < n && !XXH128_isEqual(key_of(&src[k]),
		    key_of(&of->v[i])); k++)
			;
		if (k < n)
			continue;
		number[n] = i + 1;
		src[n++] = of->v[i];
	}
	if (n > 0)
		rc = encode(all, src, number, n, err);
	for (i = 0; rc == 0 && i < n; i++)
		out->bytes += find(all, key_of(&src[i]))->bytes;
	free(src);
	free(number);
	return rc;
}

/* Put the ids into the prompt; set the spans, with their starts. */
static int
place(const struct qbatch_images *all, struct qwen_request *q,
    struct qbatch_pictures *out, struct qwen_err *err)
{
	struct qwen_span *span = cli_check_alloc(calloc(out->n, sizeof *span));
	size_t i, before = q->prompt[0].n;
	int rc;

	for (i = 0; i < out->n; i++)
		span[i] = out->v[i]->span;
	rc = tool_images_place(&q->prompt[0], all->pad, span, out->n, err);
	for (i = 0; i < out->n; i++)
		out->spans[i] = (struct qwen_span_rows){ span[i],
		    out->v[i]->rows };
	q->n_prompt_tokens += q->prompt[0].n - before;
	free(span);
	return rc;
}

int
qbatch_images_read(struct qbatch_images *all, struct qwen_request *q,
    struct qbatch_pictures *out)
{
	const struct qwen_image_sources *of = &q->images;
	struct qwen_err err;
	size_t i;
	int rc;

	if (of->n == 0)
		return 0;
	if ((rc = encode_new(all, of, out, &err)) == 0) {
		out->v = cli_check_alloc(calloc(of->n, sizeof *out->v));
		out->spans = cli_check_alloc(calloc(of->n,
		    sizeof *out->spans));
		for (i = 0; i < of->n; i++) {
			out->v[i] = find(all, key_of(&of->v[i]));
			out->v[i]->n_users++;
		}
		out->n = of->n;
		rc = place(all, q, out, &err);
		trim(all);
	}
	qwen_image_sources_fini(&q->images);
	if (rc == 0)
		return 0;
	/* not the image's fault: all others would fail, too */
	if (err.code == QWEN_EIO)
		cli_die_err(NULL, &err);
	cli_die_oom(&err);
	return tool_refuse(&q->refusal, "invalid_request", &err);
}

void
qbatch_images_fini(struct qbatch_images *all, struct qbatch_pictures *p)
{
	size_t i;

	for (i = 0; i < p->n; i++)
		p->v[i]->n_users--;
	free(p->v);
	free(p->spans);
	*p = (struct qbatch_pictures){ 0 };
	trim(all);
}
