/* SPDX-License-Identifier: ISC */
/* mmproj.h - files of image encoders with random weights, for tests. */
#ifndef MMPROJ_H
#define MMPROJ_H

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "qwen/gguf.h"

/* Sizes, and what is wrong with the file. */
struct mmproj {
	size_t		 n_embd, n_head, n_ff, n_layer, side, n_out;
	unsigned	 deep;		/* bit i: deepstack after block i */
	uint32_t	 type;		/* of matrices; of those that Q8_0 cannot
					   have: F16 */
	const char	*arch, *projector;	/* NULL: as they should be */
	unsigned	 merge;			/* 0: missing */
	const char	*without;	/* a key or tensor; or NULL */
	const char	*narrow;	/* a tensor of fewer rows; or NULL */
	const char	*other;		/* a tensor of type Q4_0; or NULL */
	int		 is_false;	/* clip.has_vision_encoder is */
};

/* Append the file's bytes to an empty text. */
void mmproj_make(struct qwen_text *out, const struct mmproj *p);

/*
 * Compute the rows of an image as qwen-numerics(7) defines them, in straight C:
 * numbers is [height][width][3], rows [n][1 + n_deepstack][n_out].
 * Shares with lib/vision only the reader of files, and the functions of
 * engine/quant.
 */
void ref_vision(const struct qwen_gguf *g, const float *numbers, size_t width,
    size_t height, float *rows);

#endif
