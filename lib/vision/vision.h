/* SPDX-License-Identifier: ISC */
/*
 * vision.h - from pixels to the rows that a language model reads in the place
 * of an image's tokens.
 *
 * The encoder is a file of its own beside the model, an "mmproj" GGUF file.
 * The Qwen3-VL, Qwen3.5 and later models have the same encoder.  qwen-numerics(7)
 * defines its arithmetic: the rows depend on the file and the pixels alone, not
 * on threads or the instruction set.
 *
 * This folder knows no image format: lib/image makes pixels of files.
 */
#ifndef QWEN_VISION_VISION_H
#define QWEN_VISION_VISION_H

#include "qwen.h"

/*
 * Version of what becomes of pixels.  It is part of the hash, and gets a new
 * number if even the last bit of a row changes.
 */
#define QWEN_VISION_VERSION 1

/* An open mmproj file with threads, kernels and the memory of its mapping. */
struct qwen_vision;

struct qwen_vision_opts {
	int		 n_threads;	/* 0: one per processor */
	const char	*cpu;		/* highest level; NULL: the fastest */
	/*
	 * Compute on the threads of this open model, instead of n_threads and
	 * cpu; only one of both computes at a time.  NULL: threads of its own.
	 */
	const struct qwen_model *share;
};

/* What the file says; all sizes are those of the file's encoder. */
struct qwen_vision_info {
	size_t	n_embd;		/* the text model's */
	size_t	n_deepstack;	/* vectors of a row beside the first one */
	size_t	n_row;		/* numbers of a row, in all */
	size_t	unit;		/* width and height are multiples of it */
	size_t	n_layer, n_embd_vision, n_ff, n_head;
	struct qwen_fp	fp;	/* of the file */
};

/*
 * Opens a file.  opts may be NULL.  QWEN_EUNSUP and QWEN_EFORMAT: the message
 * names the key or tensor.
 */
int qwen_vision_open(struct qwen_vision **out, const char *path,
    const struct qwen_vision_opts *opts, struct qwen_err *err);
/* The same for an open file g, which the encoder owns, even on failure. */
int qwen_vision_open_gguf(struct qwen_vision **out, struct qwen_gguf *g,
    const struct qwen_vision_opts *opts, struct qwen_err *err);
void qwen_vision_close(struct qwen_vision *v);

const struct qwen_vision_info *qwen_vision_info(const struct qwen_vision *v);

/* Sets *out to the fingerprint of a file, without loading it. */
int qwen_vision_fingerprint(struct qwen_fp *out, const char *path,
    struct qwen_err *err);

/*
 * Returns 0 if the file belongs to the text model in g: both have rows of the
 * same size and the same number of deepstack vectors.  Else -1, QWEN_EMISMATCH.
 */
int qwen_vision_match(const struct qwen_vision *v, const struct qwen_gguf *g,
    struct qwen_err *err);

/*
 * An image to encode: RGB, 8 bits each, [height][width][3], without gaps.  Both
 * sizes are multiples of the unit.
 */
struct qwen_vision_image {
	const uint8_t	*rgb;
	size_t		 width, height;
};

/*
 * Fills the span of an image, with start 0: the number of its rows, their grid,
 * and the hash of version, sizes, pixels and the file's fingerprint.  Encodes
 * nothing.  QWEN_ERANGE for sizes that no span can have.
 */
int qwen_vision_span(const struct qwen_vision *v,
    const struct qwen_vision_image *image, struct qwen_span *out,
    struct qwen_err *err);

/*
 * Returns the bytes of memory that encoding takes, beside the file and the
 * rows; and multiply-adds, an estimate of its time.
 */
uint64_t qwen_vision_bytes(const struct qwen_vision *v, size_t width,
    size_t height);
uint64_t qwen_vision_macs(const struct qwen_vision *v, size_t width,
    size_t height);

/*
 * Encodes an image whose span has n rows to rows, [n][n_row]: each is the vector in
 * the place of an embedding, then the deepstack vectors, as struct qwen_span_rows
 * takes them.
 * Calls progress, unless it is NULL, with how much of the total work is done.
 * QWEN_ENUMERIC if a row has a number that is NaN or infinite.
 */
int qwen_vision_encode(struct qwen_vision *v,
    const struct qwen_vision_image *image, float *rows,
    void (*progress)(void *arg, uint64_t done, uint64_t total), void *arg,
    struct qwen_err *err);

/*
 * The same from numbers instead of pixels, for tests: [height][width][3], as
 * they are after the mean and deviation of the file's keys.
 */
int qwen_vision_encode_numbers(struct qwen_vision *v, const float *numbers,
    size_t width, size_t height, float *rows, struct qwen_err *err);

#endif
