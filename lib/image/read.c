/* SPDX-License-Identifier: ISC */
/* read.c - an image file to the pixels that the encoder gets. */
#include "base/err.h"
#include "image/child.h"
#include "image/format.h"

/*
 * For an image of PIXELS_MAX: 3 or 4 bytes a pixel of it, and what decoders need
 * beside them: a progressive JPEG 6 bytes, a lossless WebP 4.
 */
static const size_t memory = (size_t)3 << 29;

struct job {
	const void	*p;
	size_t		 n;
	const struct qwen_image_limits *limits;
};

/* Resize here, too: the small image is all that leaves the child. */
static int
decode(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	const struct job *j = arg;
	struct qwen_pixels all;
	size_t width, height;
	int rc = -1;

	if (qwen_image_decode(&all, j->p, j->n, QWEN_IMAGE_PIXELS_MAX, err) < 0)
		return -1;
	width = all.width;
	height = all.height;
	if (qwen_image_fit(&width, &height, j->limits, err) == 0)
		rc = qwen_image_resize(out, &all, width, height, err);
	qwen_pixels_fini(&all);
	return rc;
}

int
qwen_image_read(struct qwen_pixels *out, const void *p, size_t n,
    const struct qwen_image_limits *limits, struct qwen_err *err)
{
	static const struct qwen_image_child child = {
		.memory = memory, .timeout_ms = QWEN_IMAGE_SECONDS_MAX * 1000,
	};
	struct job j = { p, n, limits };

	*out = (struct qwen_pixels){ 0 };
	if (n > QWEN_IMAGE_BYTES_MAX)
		return qwen_fail(err, QWEN_ERANGE, "%zu bytes: more than %d; "
		    "make the file smaller", n, QWEN_IMAGE_BYTES_MAX);
	return qwen_image_in_child(out, decode, &j, &child, err);
}
