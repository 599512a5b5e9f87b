/* SPDX-License-Identifier: ISC */
/* qimage.c - image files as a model sees them. */
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "image/image.h"

static struct {
	int			 show;
	struct qwen_image_limits limits;
} opt = { .limits = { 0, 2048 } };

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
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
	.name = "qimage", .about = "show an image as a model sees it",
	.usage = "--show [options] [file]", .options = options, .max = 1,
	.completes = "file",
};

/* Read an image, of the size that the model gets. */
static void
read_image(struct qwen_pixels *p, const char *path)
{
	size_t n;
	char *bytes = cli_read_file(path, QWEN_IMAGE_BYTES_MAX, &n);

	if (path[0] == '-' && path[1] == '\0')
		path = "stdin";
	cli_must(path, qwen_image_read(p, bytes, n, &opt.limits, &cli_err));
	free(bytes);
	if (cli_verbose)
		cli_note("%s: %zu x %zu pixels for the model, %s", path,
		    p->width, p->height, cli_count(p->width / QWEN_IMAGE_UNIT *
		    (p->height / QWEN_IMAGE_UNIT), "token"));
}

static void
show(const char *path)
{
	struct qwen_pixels p;
	struct qwen_text png = { 0 };

	cli_no_binary_tty();
	read_image(&p, path);
	cli_must(NULL, qwen_image_png(&png, &p, &cli_err));
	cli_write_all(STDOUT_FILENO, "stdout", &png);
	qwen_text_fini(&png);
	qwen_pixels_fini(&p);
}

static void
check_options(void)
{
	struct qwen_image_limits *l = &opt.limits;

	if (!opt.show)
		cli_usage("--show is missing");
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

	check_options();
	show(n > 0 ? argv[1] : "-");
	return cli_finish();
}
