/* SPDX-License-Identifier: ISC */
/* qimage.h - shared by the files of qimage. */
#ifndef QIMAGE_H
#define QIMAGE_H

#include "image/image.h"
#include "tool/tool.h"
#include "vision/vision.h"

/*
 * A folder of encoded images (--images), a cache: its errors are notes, and the
 * image is then encoded.  Each file is the stream of one image.  Any number of
 * processes use a folder at a time.
 */
struct qimage_folder;

/*
 * Opens a folder, and creates it if its parent exists.  max is the limit of its
 * bytes, as tool_store_max_parse() sets it.
 */
struct qimage_folder *qimage_folder_open(const char *dir, uint64_t max);
void qimage_folder_close(struct qimage_folder *f);

/*
 * Sets the key of an image file of n bytes at p: a hash of all that its rows
 * depend on.
 */
void qimage_key(struct qwen_fp *key, const struct qwen_vision *v,
    const struct qwen_image_limits *limits, const void *p, size_t n);

/*
 * Opens the file of this key, checks its bytes and sets the span.  Returns its
 * descriptor, or -1 if the folder has no such file.  Removes a damaged file, with a
 * note.
 */
int qimage_folder_find(struct qimage_folder *f, const struct qwen_fp *key,
    const struct qwen_vision *v, struct qwen_span *span);

/* Writes the rows in such a file to w.  Dies. */
void qimage_folder_copy(int fd, struct qwen_writer *w);

/*
 * Adds the n numbers of an image's rows under a key, and then removes the least
 * recently used files until the limit holds.
 */
void qimage_folder_add(struct qimage_folder *f, const struct qwen_fp *key,
    const struct qwen_header *h, const struct qwen_span *span,
    const float *rows, size_t n);

#endif
