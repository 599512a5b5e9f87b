/* SPDX-License-Identifier: ISC */
/* qimage.c - image files as a model sees them, and the rows that it reads. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/models.h"
#include "qimage/qimage.h"

enum { FD_OTHERS = 64 };	/* descriptors beside those of images */

static struct {
	int			 show;
	int			 no_rows;
	const char		*model;
	const char		*mmproj;	/* NULL: the one beside the model */
	int			 n_threads;
	int			 json;
	const char		*folder;	/* --images, or NULL */
	uint64_t		 folder_max;
	struct qwen_image_limits limits;
} opt = { .limits = { 0, 2048 } };

/* An image to encode. */
struct image {
	const char		*name;		/* for messages */
	struct qwen_fp		 key;		/* in the folder */
	int			 fd;		/* its file there; -1: none */
	struct qwen_pixels	 pixels;	/* none, if there is a file */
	struct qwen_span	 span;
	int			 again;		/* an earlier one has the same
						   rows */
};

static struct qimage_folder *folder;	/* or NULL */

/* Tokens of all images, for the progress. */
static struct {
	uint64_t before, image;
} work;

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	TOOL_OPT_MODEL(&opt.model),
	CLI_FILE(0, "mmproj", "file", &opt.mmproj, "file gguf",
	    "image encoder (default: the mmproj file beside the model)"),
	CLI_OPT_THREADS(&opt.n_threads),
	CLI_OPT_FORMAT(&opt.json, "cbor json",
	    "format of the spans and rows"),
	TOOL_OPT_IMAGES(&opt.folder),
	TOOL_OPT_IMAGES_MAX(&opt.folder_max),
	CLI_FLAG(0, "no-rows", &opt.no_rows,
	    "write only the spans: sizes and hashes"),
	CLI_FLAG(0, "show", &opt.show,
	    "write what the model sees as a PNG image"),
	CLI_INT(0, "max-tokens", "n", &opt.limits.max_tokens,
	    QWEN_IMAGE_TOKENS_LEAST, QWEN_IMAGE_TOKENS_MOST,
	    "shrink larger images to at most N tokens (default 2048)"),
	CLI_INT(0, "min-tokens", "n", &opt.limits.min_tokens,
	    QWEN_IMAGE_TOKENS_LEAST, QWEN_IMAGE_TOKENS_MOST,
	    "enlarge smaller images to at least N tokens (default 64)"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qimage", .about = "encode images for a model that reads them",
	.usage = "[options] [file ...]\n--show [options] [file]",
	.options = options, .max = -1,
	.completes = "file",
};

static const char *
name_of(const char *path)
{
	return strcmp(path, "-") == 0 ? "stdin" : path;
}

/* Decode an image, to the size that the model gets. */
static void
decode(struct qwen_pixels *p, const char *name, const void *bytes, size_t n)
{
	cli_must(name, qwen_image_read(p, bytes, n, &opt.limits, &cli_err));
	if (cli_verbose)
		cli_note("%s: %zu x %zu pixels for the model, %s", name,
		    p->width, p->height, cli_count(p->width / QWEN_IMAGE_UNIT *
		    (p->height / QWEN_IMAGE_UNIT), "token"));
}

static void
show(const char *path)
{
	struct qwen_pixels p;
	struct qwen_text png = { 0 };
	size_t n;
	char *bytes;

	cli_no_binary_tty();
	bytes = cli_read_file(path, QWEN_IMAGE_BYTES_MAX, &n);
	decode(&p, name_of(path), bytes, n);
	free(bytes);
	cli_must(NULL, qwen_image_png(&png, &p, &cli_err));
	cli_write_all(STDOUT_FILENO, "stdout", &png);
	qwen_text_fini(&png);
	qwen_pixels_fini(&p);
}

/* ----------------------------------------------------------------- encoding */

/* Open the encoder of the model in g. */
static struct qwen_vision *
open_encoder(const struct qwen_gguf *g, const char *model)
{
	struct qwen_vision_opts o = { .n_threads = opt.n_threads,
	    .cpu = tool_cpu() };
	struct qwen_vision *v;
	char *found = NULL;
	const char *path = opt.mmproj;

	if (path == NULL) {
		cli_must(model, qwen_models_projector(&found, model, &cli_err));
		path = found;
	}
	if (path == NULL)
		die("%s: no image encoder (mmproj file) beside it: fetch that "
		    "of the model, or give --mmproj", model);
	cli_must(path, qwen_vision_open(&v, path, &o, &cli_err));
	cli_must(path, qwen_vision_match(v, g, &cli_err));
	cli_protect_input(path, "the image encoder that is in use");
	free(found);
	return v;
}

/* Read an image, or find it in the folder. */
static void
read_image(struct image *im, const struct qwen_vision *v, const char *path)
{
	struct qwen_vision_image in;
	size_t n;
	char *bytes = cli_read_file(path, QWEN_IMAGE_BYTES_MAX, &n);

	*im = (struct image){ .name = name_of(path), .fd = -1 };
	if (folder != NULL) {
		qimage_key(&im->key, v, &opt.limits, bytes, n);
		im->fd = qimage_folder_find(folder, &im->key, v, &im->span);
	}
	if (im->fd == -1) {
		decode(&im->pixels, im->name, bytes, n);
		in = (struct qwen_vision_image){ im->pixels.rgb,
		    im->pixels.width, im->pixels.height };
		cli_must(im->name, qwen_vision_span(v, &in, &im->span,
		    &cli_err));
	} else if (cli_verbose)
		cli_note("%s: %s from images %s", im->name,
		    cli_count(im->span.n, "token"), opt.folder);
	free(bytes);
}

/* Read all images: if one is damaged, there is no stream of the others. */
static struct image *
read_images(const struct qwen_vision *v, char *paths[], size_t n)
{
	struct image *im = cli_check_alloc(calloc(n, sizeof *im));
	size_t i, k;

	for (i = 0; i < n; i++) {
		read_image(&im[i], v, paths[i]);
		for (k = 0; k < i && !im[i].again; k++)
			im[i].again = memcmp(&im[k].span.hash, &im[i].span.hash,
			    sizeof im[k].span.hash) == 0;
	}
	return im;
}

static void
show_progress(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	cli_progress(work.before + (uint64_t)((double)work.image *
	    (double)done / (double)total));
}

/* Encode an image, write its rows, and add them to the folder. */
static void
put_rows(struct qwen_writer *w, const struct qwen_header *h,
    struct qwen_vision *v, const struct image *im)
{
	struct qwen_vision_image in = { im->pixels.rgb, im->pixels.width,
	    im->pixels.height };
	size_t n = (size_t)im->span.n * qwen_vision_info(v)->n_row;
	float *rows = cli_check_alloc(malloc(n * sizeof *rows));

	work.image = im->span.n;
	cli_must(im->name, qwen_vision_encode(v, &in, rows, show_progress, NULL,
	    &cli_err));
	if (folder != NULL)
		qimage_folder_add(folder, &im->key, h, &im->span, rows, n);
	cli_must("stdout", qwen_write_rows(w, &im->span.hash, rows, n,
	    &cli_err));
	work.before += im->span.n;
	free(rows);
}

/* Is this one of the images to encode? */
static int
is_new(const struct image *im)
{
	return !opt.no_rows && !im->again && im->fd == -1;
}

/*
 * Write the spans of all images, then their rows: if one cannot be encoded, a
 * reader misses rows and does not take the stream for complete.
 */
static void
put_images(struct qwen_writer *w, const struct qwen_header *h,
    struct qwen_vision *v, struct image *im, size_t n)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < n; i++) {
		cli_must("stdout", qwen_write_span(w, &im[i].span, &cli_err));
		total += is_new(&im[i]) ? im[i].span.n : 0;
	}
	cli_progress_start("tokens", total);
	for (i = 0; i < n; i++) {
		if (is_new(&im[i]))
			put_rows(w, h, v, &im[i]);
		else if (!opt.no_rows && !im[i].again)
			qimage_folder_copy(im[i].fd, w);
		qwen_pixels_fini(&im[i].pixels);
		if (im[i].fd != -1)
			close(im[i].fd);
	}
	cli_progress_end();
}

static void
encode(char *paths[], size_t n)
{
	struct qwen_writer *w;
	struct qwen_header h;
	struct qwen_vision *v;
	struct qwen_gguf *g;
	struct image *im;
	const char *model;

	if (!cli_given(&opt.json))
		cli_no_binary_tty();
	model = tool_model_path(opt.model);
	g = tool_gguf_open(model);
	v = open_encoder(g, model);
	if (opt.folder != NULL) {
		tool_fd_limit(n + FD_OTHERS);
		folder = qimage_folder_open(opt.folder, opt.folder_max);
	}
	im = read_images(v, paths, n);
	cli_must(model, qwen_header_init(&h, QWEN_STREAM_TOKENS, g, &cli_err));
	w = tool_writer(STDOUT_FILENO, opt.json ? QWEN_FORMAT_JSON :
	    QWEN_FORMAT_CBOR);
	cli_must("stdout", qwen_write_header(w, &h, &cli_err));
	put_images(w, &h, v, im, n);
	cli_must("stdout", qwen_writer_close(w, &cli_err));
	free(im);
	qimage_folder_close(folder);
	qwen_vision_close(v);
	qwen_gguf_close(g);
}

static void
check_options(int n)
{
	struct qwen_image_limits *l = &opt.limits;

	if (opt.show && (opt.mmproj != NULL || opt.no_rows ||
	    opt.folder != NULL || cli_given(&opt.json)))
		cli_usage("--show needs no encoder, and writes PNG: not with "
		    "--mmproj, --images, --no-rows or -f");
	if (opt.folder == NULL && opt.folder_max > 0)
		cli_usage("--images-max needs --images");
	if (opt.show && n > 1)
		cli_usage("--show takes only one image");
	if (!cli_given(&l->min_tokens))
		l->min_tokens = l->max_tokens < 64 ? l->max_tokens : 64;
	if (l->min_tokens > l->max_tokens)
		cli_usage("--min-tokens %u is more than --max-tokens %u",
		    l->min_tokens, l->max_tokens);
}

int
main(int argc, char *argv[])
{
	int n = cli_begin(&tool, argc, argv);
	char *in[] = { "-", NULL };

	check_options(n);
	if (opt.show)
		show(n > 0 ? argv[1] : "-");
	else
		encode(n > 0 ? argv + 1 : in, n > 0 ? (size_t)n : 1);
	return cli_finish();
}
