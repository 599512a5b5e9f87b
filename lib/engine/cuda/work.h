/* SPDX-License-Identifier: ISC */
/* work.h - the memory of a pass on the card. */
#ifndef QWEN_CUDA_WORK_H
#define QWEN_CUDA_WORK_H

#include "engine/cuda/cuda.h"

/* Rows of logits that are computed at once. */
#define QWEN_CUDA_HEAD_ROWS 64

static inline struct qwen_cuda_work *
qwen_cuda_work_of(struct qwen_work *w)
{
	return (struct qwen_cuda_work *)(void *)w;
}

/* The functions of struct qwen_device. */
int qwen_cuda_work_new(struct qwen_work **out, struct qwen_resident *r,
    struct qwen_err *err);
void qwen_cuda_work_free(struct qwen_work *w);
int qwen_cuda_fit(struct qwen_work *w, size_t n, size_t n_share, size_t end,
    struct qwen_err *err);
uint64_t qwen_cuda_work_bytes(const struct qwen_net *net, size_t n,
    size_t n_share, size_t end);

/*
 * Sends the rows and shares of w->p, and sets w->pass; sends the angles of
 * RoPE.
 */
void qwen_cuda_send(struct qwen_cuda_work *w);
void qwen_cuda_send_turns(struct qwen_cuda_work *w);

/*
 * Sends what rows add to results of layers from `layer' on, and sets w->n_deep.
 * The rows themselves are sent later.
 */
void qwen_cuda_send_deep(struct qwen_cuda_work *w, size_t layer);

/*
 * clear sets the flags to "nothing found" before a pass.  fetch waits for the
 * card and tells w->p which rows had a NaN or infinity.
 */
void qwen_cuda_clear_flags(struct qwen_cuda_work *w);
void qwen_cuda_fetch_flags(struct qwen_cuda_work *w);

/* Copies n rows of `width' logits to y[i], and fetches the flags. */
void qwen_cuda_fetch_logits(struct qwen_cuda_work *w, size_t n, size_t width,
    float *const *y);

#endif
