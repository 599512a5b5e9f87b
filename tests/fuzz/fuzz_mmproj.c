/* SPDX-License-Identifier: ISC */
/*
 * fuzz_mmproj.c - any bytes as the file of an image encoder: its sizes, and the
 * rows of a small image, or a message.
 */
#include <math.h>
#include <stdlib.h>

#include "gguf/gguf.h"
#include "gguf/mmproj.h"
#include "vision/vision.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was read is within the limits, and all tensors of it are there. */
static void
use(const struct qwen_mmproj *m, const struct qwen_gguf *g)
{
	struct qwen_mmproj_tensor t;
	struct qwen_err err;
	uint32_t i, n = 0;
	int whole = qwen_mmproj_check(m, g, &err) == 0;
	size_t k;

	if (qwen_mmproj_check_sizes(m, &err) < 0 ||
	    !isfinite(qwen_mmproj_macs(m, 1 << 20)))
		abort();
	for (i = 0; i < m->n_layer; i++)
		n += m->deepstack[i];
	if (n != m->n_deepstack)
		abort();
	for (k = 0; qwen_mmproj_tensor(m, k, &t); k++) {
		if (t.name[0] == '\0' || t.hub[0] == '\0' || t.n_dims < 1 ||
		    (whole && qwen_gguf_find_tensor(g, t.name) == NULL))
			abort();
	}
}

static void
expect_message(const struct qwen_err *err)
{
	if (err->code == 0 || err->msg[0] == '\0')
		abort();
}

/* Encodes an image of 2 x 2 tokens by the file g, which it closes. */
static void
encode(struct qwen_gguf *g)
{
	struct qwen_vision_opts o = { .n_threads = 1 };
	struct qwen_vision_image image;
	struct qwen_err err = { 0 };
	struct qwen_vision *v;
	uint8_t *rgb;
	float *rows;
	size_t side;

	if (qwen_vision_open_gguf(&v, g, &o, &err) < 0) {
		expect_message(&err);
		return;
	}
	side = 2 * qwen_vision_info(v)->unit;
	rgb = calloc(side * side, 3);
	rows = malloc(4 * qwen_vision_info(v)->n_row * sizeof *rows);
	if (rgb == NULL || rows == NULL)
		abort();
	image = (struct qwen_vision_image){ rgb, side, side };
	if (qwen_vision_encode(v, &image, rows, NULL, NULL, &err) < 0)
		expect_message(&err);
	free(rgb);
	free(rows);
	qwen_vision_close(v);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qwen_mmproj m;
	struct qwen_gguf *g;
	struct qwen_err err;

	if (qwen_gguf_open_memory(&g, data, size, &err) < 0)
		return 0;
	err.code = 0;
	if (qwen_mmproj_read(&m, g, &err) == 0)
		use(&m, g);
	else
		expect_message(&err);
	encode(g);
	return 0;
}
