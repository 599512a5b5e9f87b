/* SPDX-License-Identifier: ISC */
/* imatrix.h - importance matrices. */
#ifndef QWEN_QUANTIZE_IMATRIX_H
#define QWEN_QUANTIZE_IMATRIX_H

#include "quantize/quantize.h"

/*
 * Returns 1 if there are values for t that fit it, 0 if none, -1 if they are
 * bad.
 */
int qwen_imatrix_has(const struct qwen_imatrix *m,
    const struct qwen_gguf_tensor *t, struct qwen_err *err);

/*
 * Returns the weights of t's columns, for each of its matrices: ne[0] * ne[2]
 * numbers, for free(); NULL without memory.  qwen_imatrix_has() returned 1.
 */
float *qwen_imatrix_weights(const struct qwen_imatrix *m,
    const struct qwen_gguf_tensor *t, struct qwen_err *err);

/* Number of tensors with values; number of chunks and name of the text. */
size_t qwen_imatrix_entries(const struct qwen_imatrix *m);
uint32_t qwen_imatrix_chunks(const struct qwen_imatrix *m);
int qwen_imatrix_dataset(const struct qwen_imatrix *m, struct qwen_str *out);

#endif
