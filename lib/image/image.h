/* SPDX-License-Identifier: ISC */
/*
 * image.h - image files to the pixels that a vision encoder sees.  Knows no
 * model.
 */
#ifndef QWEN_IMAGE_IMAGE_H
#define QWEN_IMAGE_IMAGE_H

#include "base/text.h"
#include "qwen/base.h"

/* Rows from top to bottom, pixels from left to right, without padding. */
struct qwen_pixels {
	uint8_t	*rgb;		/* [height][width][3]; for free() */
	size_t	 width, height;
};

/* Frees the pixels and empties the struct. */
void qwen_pixels_fini(struct qwen_pixels *p);

enum {
	QWEN_IMAGE_UNIT = 32,		/* pixels on each side of a token: a
					   patch of 16 times a merge of 2 */
	QWEN_IMAGE_TOKENS_LEAST = 8,	/* of the limits below */
	QWEN_IMAGE_TOKENS_MOST = 16384,
	QWEN_IMAGE_BYTES_MAX = 1 << 28,	/* of a file */
	QWEN_IMAGE_PIXELS_MAX = 100000000,
	QWEN_IMAGE_SECONDS_MAX = 10,	/* of decoding */
};

/* Tokens of an image: TOKENS_LEAST <= min <= max <= TOKENS_MOST. */
struct qwen_image_limits {
	uint32_t min_tokens, max_tokens;
};

/*
 * Reads an image file of n bytes at p: JPEG, PNG, WebP or GIF, of the last two
 * the first frame.  The type follows from the bytes.  Transparent pixels are
 * laid on white.  Grey becomes RGB; 16 bits become the upper 8.  Orientation,
 * colour profiles and gamma are ignored.  The image is resized as by
 * qwen_image_fit().
 *
 * Everything is decoded in a child process, which has no files, little memory
 * and few system calls.  Errors: the file is of no known type, damaged, too
 * large, or its decoder crashed or took too long.
 */
int qwen_image_read(struct qwen_pixels *out, const void *p, size_t n,
    const struct qwen_image_limits *limits, struct qwen_err *err);

/*
 * Replaces the size of an image by the size that the encoder gets: multiples of
 * QWEN_IMAGE_UNIT with nearly the same shape, of at most max_tokens tokens.
 * Within the limits, each side is rounded to the nearest multiple.  Otherwise
 * the image shrinks or grows.  A very long image may have fewer than min_tokens
 * tokens.  Fails if one side is more than 200 times as long as the other.
 */
int qwen_image_fit(size_t *width, size_t *height,
    const struct qwen_image_limits *limits, struct qwen_err *err);

/*
 * Resizes an image: bicubic with antialiasing, first the rows, then the columns,
 * with the bytes of two calls of Pillow's resize(), one for each direction.
 */
int qwen_image_resize(struct qwen_pixels *out, const struct qwen_pixels *in,
    size_t width, size_t height, struct qwen_err *err);

/* Adds the pixels as a PNG file to a text. */
int qwen_image_png(struct qwen_text *to, const struct qwen_pixels *p,
    struct qwen_err *err);

#endif
