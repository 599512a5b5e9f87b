/* SPDX-License-Identifier: ISC */
/* imatrix.h - what a file of importance says about a tensor. */
#ifndef QWEN_QUANTIZE_IMATRIX_H
#define QWEN_QUANTIZE_IMATRIX_H

#include "quantize/quantize.h"

/* 1 if there is something for t that fits it, 0 if nothing, -1 if it is bad. */
int qwen_imatrix_has(const struct qwen_imatrix *m,
    const struct qwen_gguf_tensor *t, struct qwen_err *err);

/* The weights of t's columns, for each of its matrices: ne[0] * ne[2]. */
void qwen_imatrix_weights(const struct qwen_imatrix *m,
    const struct qwen_gguf_tensor *t, float *w);

/* How many tensors it has something for, and what it was made of. */
size_t qwen_imatrix_entries(const struct qwen_imatrix *m);
uint32_t qwen_imatrix_chunks(const struct qwen_imatrix *m);
int qwen_imatrix_dataset(const struct qwen_imatrix *m, struct qwen_str *out);

#endif
