/* SPDX-License-Identifier: ISC */
/* image.c - what an image encoder's file (mmproj) has, and what it takes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gguf-inspect.h"

void
inspect_image_open(struct inspect_image *im, const struct qwen_gguf *g)
{
	memset(im, 0, sizeof *im);
	im->is = qwen_mmproj_is(g);
	if (!im->is)
		return;
	im->sizes = qwen_mmproj_read(&im->m, g, &cli_err) == 0;
	if (!im->sizes || qwen_mmproj_check(&im->m, g, &cli_err) < 0) {
		im->why = cli_check_alloc(strdup(cli_err.msg));
		im->code = cli_err.code;
	}
}

void
inspect_image_fini(struct inspect_image *im)
{
	free(im->why);
}

/* Width and height of an image are multiples of this many pixels. */
static uint32_t
multiple(const struct qwen_mmproj *m)
{
	return m->patch * QWEN_MMPROJ_MERGE;
}

/* One number of an encoder, as text and as JSON. */
struct size_row {
	const char	*name;
	uint32_t	 value;
};

enum { N_SIZES = 8 };

static void
list_sizes(const struct qwen_mmproj *m, struct size_row row[N_SIZES])
{
	const struct size_row all[N_SIZES] = {
		{ "layers", m->n_layer }, { "embedding", m->n_embd },
		{ "heads", m->n_head }, { "ffn", m->n_ff },
		{ "patch", m->patch }, { "multiple", multiple(m) },
		{ "positions", m->side }, { "row", m->n_out } };

	memcpy(row, all, sizeof all);
}

void
inspect_put_image(const struct inspect_image *im)
{
	struct size_row row[N_SIZES];
	uint32_t i;

	if (!im->is)
		return;
	if (im->sizes) {
		list_sizes(&im->m, row);
		for (i = 0; i < N_SIZES; i++)
			printf("image %-10s %" PRIu32 "\n", row[i].name,
			    row[i].value);
		printf("image %-10s", "deepstack");
		for (i = 0; i < im->m.n_layer; i++) {
			if (im->m.deepstack[i])
				printf(" %" PRIu32, i);
		}
		puts(im->m.n_deepstack == 0 ? " none" : "");
	}
	if (im->why == NULL) {
		printf("images yes: for a model of embedding_length %" PRIu32
		    "\n", im->m.n_out);
		return;
	}
	printf("images no: ");
	inspect_put_text(im->why, strlen(im->why), SIZE_MAX, "");
	putchar('\n');
}

void
inspect_json_image(const struct inspect_image *im)
{
	struct size_row row[N_SIZES];
	const char *before = "";
	uint32_t i;

	if (!im->is)
		return;
	printf(",\n\"image\": {");
	list_sizes(&im->m, row);
	for (i = 0; i < N_SIZES && im->sizes; i++)
		printf("\"%s\": %" PRIu32 ", ", row[i].name, row[i].value);
	printf("\"deepstack\": [");
	for (i = 0; i < im->m.n_layer && im->sizes; i++) {
		if (im->m.deepstack[i]) {
			printf("%s%" PRIu32, before, i);
			before = ", ";
		}
	}
	printf("], \"usable\": %s, \"reason\": ", im->why == NULL ? "true" :
	    "false");
	if (im->why != NULL)
		cli_json_string(im->why);
	else
		printf("null");
	putchar('}');
}

/* ------------------------------------------------------------------- plan */

/* Returns the number nearest to n that is a multiple of `of'. */
static uint32_t
nearest(uint32_t n, uint32_t of)
{
	uint32_t times = (n + of / 2) / of;

	return (times > 0 ? times : 1) * of;
}

/* Adds what an image of this size takes. */
static void
plan_image(struct inspect_figure f[4], const char *kind,
    const struct qwen_mmproj *m, const struct qwen_machine *h, uint32_t width,
    uint32_t height)
{
	uint32_t by = multiple(m);
	double tokens = (double)(nearest(width, by) / by) *
	    (nearest(height, by) / by);
	double macs = qwen_mmproj_macs(m, tokens * QWEN_MMPROJ_JOINED);
	double bytes = tokens * m->n_out * (1.0 + m->n_deepstack) * 4;

	f[0] = (struct inspect_figure){ kind, "rows", tokens, "tokens" };
	f[1] = (struct inspect_figure){ kind, "row-bytes", bytes, "bytes" };
	f[2] = (struct inspect_figure){ kind, "macs", macs / 1e9, "GMAC" };
	f[3] = (struct inspect_figure){ kind, "time", macs / h->f32,
	    "s/image" };
}

/* Returns the numbers of all tensors of an encoder, and their bytes. */
static double
weights_of(const struct qwen_mmproj *m, const struct qwen_gguf *g,
    double *bytes)
{
	struct qwen_mmproj_tensor t;
	double n = 0;
	size_t i;

	*bytes = 0;
	for (i = 0; qwen_mmproj_tensor(m, i, &t); i++) {
		n += (double)t.ne[0] * (double)t.ne[1] * (double)t.ne[2] *
		    (double)t.ne[3];
		*bytes += (double)qwen_gguf_find_tensor(g, t.name)->bytes;
	}
	return n;
}

static void
plan(const struct inspect_image *im, const struct qwen_gguf *g,
    const char *path, int n_threads, int json)
{
	struct qwen_machine h;
	struct inspect_figure f[12];
	double n, bytes;

	if (im->why != NULL)
		die("%s: %s", path, im->why);
	cli_must(NULL, qwen_machine_measure(&h, n_threads, tool_cpu(), 0,
	    &cli_err));
	n = weights_of(&im->m, g, &bytes);
	f[0] = (struct inspect_figure){ "memory", "weights", bytes, "bytes" };
	f[1] = (struct inspect_figure){ "model", "params", n / 1e9, "10^9" };
	f[2] = (struct inspect_figure){ "machine", "threads", h.n_threads,
	    "threads" };
	f[3] = (struct inspect_figure){ "machine", "f32", h.f32 / 1e9,
	    "GMAC/s" };
	plan_image(f + 4, "1024x1024", &im->m, &h, 1024, 1024);
	plan_image(f + 8, "1920x1080", &im->m, &h, 1920, 1080);
	if (json)
		putchar('{');
	inspect_put_figures(f, 12, json);
}

int
inspect_plan_image(const char *path, int n_threads, int json)
{
	struct inspect_image im;
	struct qwen_gguf *g;
	struct stat st;
	int is;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) ||
	    qwen_gguf_open(&g, path, &cli_err) < 0)
		return 0;	/* a model, or what is said of one */
	inspect_image_open(&im, g);
	is = im.is;
	if (is)
		plan(&im, g, path, n_threads, json);
	inspect_image_fini(&im);
	qwen_gguf_close(g);
	return is;
}
