/* SPDX-License-Identifier: ISC */
/*
 * format.h - the formats of image files, each in format/NAME.c, and decoding
 * without a child process.
 */
#ifndef QWEN_IMAGE_FORMAT_H
#define QWEN_IMAGE_FORMAT_H

#include "image/image.h"

struct qwen_image_format {
	const char	*name;		/* as in the table of decode.c */
	/*
	 * Decode a file of n bytes; fail if the image has more than max_pixels.
	 * On failure *out may have pixels, which the caller frees.
	 */
	int		(*decode)(struct qwen_pixels *out, const uint8_t *p,
			    size_t n, size_t max_pixels, struct qwen_err *err);
	/* as qwen_image_png(); or NULL */
	int		(*encode)(struct qwen_text *to,
			    const struct qwen_pixels *p, struct qwen_err *err);
};

/* Returns the format, or NULL if this build cannot read it. */
const struct qwen_image_format *qwen_image_format(const char *name);

/*
 * Decodes a file in this process.  Call it only in a child process
 * (image/child.h) or in a test.
 */
int qwen_image_decode(struct qwen_pixels *out, const uint8_t *p, size_t n,
    size_t max_pixels, struct qwen_err *err);

/*
 * For decoders: sets the size of an image and allocates channels bytes for each
 * pixel, all zero.  Fails if the image has no pixels or more than max_pixels.
 */
int qwen_pixels_new(struct qwen_pixels *out, size_t width, size_t height,
    size_t channels, size_t max_pixels, struct qwen_err *err);

/* Makes RGB of RGBA in place, on white. */
void qwen_pixels_flatten(struct qwen_pixels *p);

#endif
