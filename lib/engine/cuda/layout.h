/* SPDX-License-Identifier: ISC */
/* layout.h - how weights lie on the card. */
#ifndef QWEN_CUDA_LAYOUT_H
#define QWEN_CUDA_LAYOUT_H

#include "engine/cuda/cuda.h"

/* Layouts of a row of weights: kernel/product.h. */
enum qwen_cuda_layout {
	QWEN_CUDA_FLOATS,	/* as in the file, like Q4_K and Q5_K */
	QWEN_CUDA_Q4_K, QWEN_CUDA_Q5_K, QWEN_CUDA_Q6_K, QWEN_CUDA_Q8_0,
	/* of nibbles */
	QWEN_CUDA_Q4, QWEN_CUDA_IQ4_XS, QWEN_CUDA_Q3_K, QWEN_CUDA_Q2_K,
	QWEN_CUDA_SUPER, QWEN_CUDA_BLOCK	/* all others */
};

enum qwen_cuda_layout qwen_cuda_layout_of(const struct qwen_weight *w);

/* Returns the [16] values of a layout of nibbles; else NULL. */
const int8_t *qwen_cuda_values(const struct qwen_weight *w);

/* Bytes of a row: a multiple of 16. */
uint64_t qwen_cuda_row_bytes(const struct qwen_weight *w);

/*
 * Writes a row to `to', which has qwen_cuda_row_bytes(); from is the row in the
 * file.
 */
void qwen_cuda_lay(const struct qwen_weight *w, const unsigned char *from,
    unsigned char *to);

/* Frees the memory that qwen_cuda_weight_fill keeps (staging.c). */
void qwen_cuda_staging_free(struct qwen_cuda *c);

#endif
