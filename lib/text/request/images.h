/* SPDX-License-Identifier: ISC */
/*
 * images.h - the images of a request: where each comes from, in the order of
 * their places in the prompt.  This code reads no image: callers do.
 */
#ifndef QWEN_TEXT_REQUEST_IMAGES_H
#define QWEN_TEXT_REQUEST_IMAGES_H

#include "qwentext.h"

enum { QWEN_REQUEST_IMAGES_MAX = 512 };	/* images of a request */

enum qwen_source_kind {
	QWEN_SOURCE_NONE,	/* the part names no source */
	QWEN_SOURCE_BYTES,	/* the bytes of an image file */
	QWEN_SOURCE_URL,	/* http: or https: */
	QWEN_SOURCE_PATH,	/* a file of the machine that answers: allow
				   that only if its user wants it */
};

struct qwen_image_source {
	enum qwen_source_kind kind;
	char	*s;		/* n bytes and a NUL; owned, or NULL */
	size_t	 n;
	size_t	 message;	/* number of its message, from 0 */
};

struct qwen_image_sources {
	struct qwen_image_source *v;
	size_t	 n, cap;
};

void qwen_image_sources_fini(struct qwen_image_sources *all);

/*
 * Returns the number of places for images that the template wrote into a
 * prompt.  The same words in a message do not count.
 */
size_t qwen_image_places(const struct qwen_prompt *p);

#endif
