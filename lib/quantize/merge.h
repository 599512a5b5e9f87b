/* SPDX-License-Identifier: ISC */
/* merge.h - adding LoRA adapters to weights. */
#ifndef QWEN_QUANTIZE_MERGE_H
#define QWEN_QUANTIZE_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "gguf/adapter.h"

/* The adapters of a file. */
struct quantize_merge;

/*
 * Opens n adapters of a model; each of their tensors must fit one of the model.
 */
int qwen_merge_open(struct quantize_merge **out, const struct qwen_gguf *in,
    const struct qwen_adapter *a, size_t n, struct qwen_err *err);
void qwen_merge_close(struct quantize_merge *m);

/*
 * Returns 1 if an adapter changes the tensor of this name, whose values are
 * those of t.
 */
int qwen_merge_changes(const struct quantize_merge *m, const char *name,
    const struct qwen_gguf_tensor *t);

/*
 * Loads the changes of a tensor into memory: A and B in f32.  *out is NULL, and
 * the function returns 0, if there are none.
 */
struct quantize_changes;
int qwen_merge_load(struct quantize_changes **out,
    const struct quantize_merge *m, const char *name,
    const struct qwen_gguf_tensor *t, struct qwen_err *err);
void qwen_merge_free(struct quantize_changes *c);

/*
 * Adds the changes to n rows from row on, counted over all matrices: in double,
 * in the order of the adapters and of their ranks, rounded once at the end.
 */
void qwen_merge_rows(const struct quantize_changes *c, float *x, uint64_t row,
    uint64_t n);

#endif
