/* SPDX-License-Identifier: ISC */
/* merge.h - what adapters add to the weights of a file. */
#ifndef QWEN_QUANTIZE_MERGE_H
#define QWEN_QUANTIZE_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "gguf/adapter.h"

/* The adapters of a file. */
struct quantize_merge;

/* n adapters of a model; each of their tensors must fit one of it. */
int qwen_merge_open(struct quantize_merge **out, const struct qwen_gguf *in,
    const struct qwen_adapter *a, size_t n, struct qwen_err *err);
void qwen_merge_close(struct quantize_merge *m);

/*
 * Does one of them change the tensor of this name, whose numbers are those of
 * t?
 */
int qwen_merge_changes(const struct quantize_merge *m, const char *name,
    const struct qwen_gguf_tensor *t);

/*
 * The changes of a tensor, in memory: as much as A and B of it in f32.  NULL, and
 * 0, if there are none.
 */
struct quantize_changes;
int qwen_merge_load(struct quantize_changes **out,
    const struct quantize_merge *m, const char *name,
    const struct qwen_gguf_tensor *t, struct qwen_err *err);
void qwen_merge_free(struct quantize_changes *c);

/*
 * Add them to n rows from row on, of all matrices; in double, in the order of the
 * adapters and of their ranks, then rounded once.
 */
void qwen_merge_rows(const struct quantize_changes *c, float *x, uint64_t row,
    uint64_t n);

#endif
